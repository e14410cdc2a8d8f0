"""Serialises state: named values to one Arrow record and back. The same values give the same bytes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Value: TypeAlias = "NDArray | pa.Array | int | float | bool | str | bytes | None"

_IDENTITY = b"unskew.identity"
_SHAPE = b"unskew.shape"
_ARROW = b"unskew.arrow"


class Stateful(ABC):
    """Base of routers, monitors and controllers, whose state can be saved and restored in another process."""

    state_fields: ClassVar[tuple[str, ...]] = ()  #: The attributes of the state: arrays, numbers, strings, bytes.

    def save(self) -> bytes:
        """Serialise the state. The same state gives the same bytes."""
        return pack_values(self._identity(), self._state())

    def load(self, data: bytes) -> None:
        """Restore the state of ``save``. Raises ``ValueError`` if it is of another scheme or other parameters."""
        self._restore(unpack_values(self._identity(), data))

    def _state(self) -> dict[str, Value]:
        return {field: getattr(self, field) for field in self.state_fields}

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Restore ``_state``'s values, and attributes derived from them."""
        for field in self.state_fields:
            setattr(self, field, state[field])

    @abstractmethod
    def _identity(self) -> str:
        """The class and the parameters that shape its state. States of another identity are refused."""


def pack_values(identity: str, values: Mapping[str, Value]) -> bytes:
    """Pack values into an Arrow IPC stream of one row. Arrays become lists, with their shape in the metadata."""
    fields: list[pa.Field] = []
    columns: list[pa.Array] = []
    for name, value in values.items():
        metadata: dict[bytes, bytes] | None = None
        items: Any = None
        if isinstance(value, np.ndarray):
            items = pa.array(value.reshape(-1))
            metadata = {_SHAPE: ",".join(map(str, value.shape)).encode()}
        elif isinstance(value, pa.Array):
            items = value
            metadata = {_ARROW: b""}
        column = (
            pa.array([value])
            if items is None
            else pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)
        )
        fields.append(pa.field(name, column.type, metadata=metadata))
        columns.append(column)
    schema = pa.schema(fields, metadata={_IDENTITY: identity.encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    return sink.getvalue().to_pybytes()


def unpack_values(identity: str, data: bytes) -> dict[str, Value]:
    """Unpack the values of ``pack_values``. Arrays are new and writable.

    Raises ``ValueError`` if the bytes aren't a packed state, or of another identity.
    """
    try:
        with pa.ipc.open_stream(data) as reader:
            schema, batch = reader.schema, reader.read_next_batch()
    except (pa.ArrowInvalid, StopIteration, OSError) as error:
        raise ValueError(f"not a saved state ({error})") from error
    found = (schema.metadata or {}).get(_IDENTITY, b"").decode()
    if found != identity:
        raise ValueError(f"the state was saved by ({found}), this is ({identity})")
    values: dict[str, Value] = {}
    for field, column in zip(schema, batch.columns, strict=True):
        metadata = field.metadata or {}
        if _SHAPE in metadata:
            shape = [int(n) for n in metadata[_SHAPE].decode().split(",") if n]
            values[field.name] = column.values.to_numpy(zero_copy_only=False).copy().reshape(shape)
        elif _ARROW in metadata:
            values[field.name] = column.values
        else:
            values[field.name] = column[0].as_py()
    return values
