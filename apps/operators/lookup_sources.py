"""Lookups for ``balanced_lookup``: a query of PostgreSQL, and tables in Parquet or Delta Lake."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from unskew.grouping.arguments import check_choice

if TYPE_CHECKING:
    import psycopg

FORMATS = ("parquet", "delta")
_CONNECTING = 10  # s


class PostgresLookup:
    """Look up keys with a query of PostgreSQL. It needs ``unskew[postgres]``.

    Each Python process keeps a connection, and reconnects after an error.

    Parameters
    ----------
    conninfo : str
        The database for libpq: ``"host=db dbname=shop user=reader"``, or a URL. The rest comes from the executors'
        environment (``PGPASSWORD``, say), or from ``~/.pgpass``.
    query : str
        It has one parameter, ``%s``: an array of keys. It returns the keys that exist as ``key``, and other columns.

    Examples
    --------
    >>> lookup = PostgresLookup("host=db dbname=shop", "SELECT id AS key, name FROM users WHERE id = ANY(%s)")

    """

    def __init__(self, conninfo: str, query: str) -> None:
        self.conninfo, self.query = conninfo, query

    def __repr__(self) -> str:
        """Only the query: the other argument may have a password."""
        return f"PostgresLookup({self.query!r})"

    def __call__(self, keys: pa.Array) -> pa.Table:
        """The rows of n keys."""
        try:
            if self.conninfo not in _connections:
                _connections[self.conninfo] = _connect(self.conninfo)
            cursor = _connections[self.conninfo].execute(self.query.encode(), [keys.to_pylist()])
        except Exception:
            if (broken := _connections.pop(self.conninfo, None)) is not None:
                broken.close()
            raise
        names = [column.name for column in cursor.description or ()]
        columns = zip(*cursor.fetchall(), strict=True)
        return pa.table(dict(zip(names, columns, strict=True)) or {name: pa.nulls(0) for name in names})


class TableLookup:
    """Look up keys in a table of files, which each lookup reads anew.

    It suits tables of some hundred thousand rows. For larger ones a database is faster, unless they are sorted by the
    key, so that most row groups can be skipped.

    Parameters
    ----------
    path : str
        A file or a folder that the executors see, or a URI such as ``s3://bucket/users``.
    key : str
        The column of the keys. A key has at most one row.
    columns : sequence of str, or mapping of str to str
        The columns to look up; or name in the result → name in the table.
    format : str
        ``parquet``, or ``delta`` for Delta Lake, which needs ``unskew[delta]``.
    storage_options : mapping of str to str, optional
        For Delta Lake: the store's options (``deltalake.DeltaTable``).

    Examples
    --------
    >>> lookup = TableLookup("s3://shop/users", "id", ["name", "country"])

    """

    def __init__(
        self,
        path: str,
        key: str,
        columns: Sequence[str] | Mapping[str, str],
        format: str = "parquet",  # noqa: A002
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.path, self.key, self.format = path, key, check_choice("format", format, FORMATS)
        self.columns = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
        self.storage_options = dict(storage_options or {})

    def __repr__(self) -> str:
        """Omits the options, which may have a password."""
        return f"TableLookup({self.path!r}, {self.key!r})"

    def __call__(self, keys: pa.Array) -> pa.Table:
        """The rows of n keys."""
        table = self._open()
        wanted = {"key": self.key} | self.columns
        missing = [name for name in wanted.values() if name not in table.schema.names]
        if missing:
            raise ValueError(f"{self.path} has no column {missing[0]!r}; valid: {', '.join(table.schema.names)}")
        chosen = {shown: ds.field(name) for shown, name in wanted.items()}
        of = table.schema.field(self.key).type
        return table.to_table(columns=chosen, filter=ds.field(self.key).isin(keys.cast(of)))

    def _open(self) -> ds.Dataset:
        if self.format == "parquet":
            return ds.dataset(self.path, format="parquet")
        from deltalake import DeltaTable

        return DeltaTable(self.path, storage_options=self.storage_options).to_pyarrow_dataset()


#: Database → the process's connection.
_connections: "dict[str, psycopg.Connection[Any]]" = {}


def _connect(conninfo: str) -> "psycopg.Connection[Any]":
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    patience = {"connect_timeout": _CONNECTING} | conninfo_to_dict(conninfo)
    return psycopg.connect(conninfo, autocommit=True, connect_timeout=patience["connect_timeout"])
