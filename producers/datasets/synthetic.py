"""Streams of plain keys with a distribution from the papers, as ``{"key"}`` messages that belong to no application."""

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.grouping import streams
from unskew.grouping.streams import KeyStream
from unskew.kafka.json_columns import format_integers
from unskew.producers.datasets.interface import Block, GeneratedDataset, PublishedStatistics
from unskew.producers.messages import make_key_messages


class Synthetic(GeneratedDataset):
    """``{"key":"17"}`` messages whose keys are the numbers of a stream of ``unskew.grouping.streams``.

    ``law`` is the name of a function there that makes the stream, and the function's arguments. It is called when the
    first block is read, because a large table takes time to build.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        law: tuple[Any, ...],
        records: int,
        seed: int,
        published: PublishedStatistics | None = None,
    ) -> None:
        super().__init__(records, seed)
        self.name = name
        self.summary = summary
        self._law = law
        self.published = published

    @cached_property
    def stream(self) -> KeyStream:
        """The keys, as numbers."""
        name, *arguments = self._law
        return getattr(streams, name)(*arguments)

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "law": self._law}

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        keys = pa.array(self.stream.draw(rng, first, self.chunk)).dictionary_encode()
        distinct = make_key_messages(format_integers(keys.dictionary.to_numpy()))
        return distinct.take(keys.indices.to_numpy())


# The table of more keys would fill a small machine's memory, and no dataset here has a tenth as many.
_MOST_KEYS = 100_000_000
_STEEPEST = 100


def zipf_keys(z: float = 1.0, keys: int = 100_000, *, records: int = 10_000_000, seed: int = 0) -> Synthetic:
    """ZIPF: the frequency of the key of rank r is r^-z / Σ x^-z (PKG, Section 6)."""
    _require_number("z", z, 0, _STEEPEST)
    _require_number("keys", keys, 1, _MOST_KEYS)
    return Synthetic("ZIPF", f"Zipf keys: z = {z:g}, K = {keys:,}", ("zipf", z, keys), records, seed)


def lognormal_1(*, records: int = 10_000_000, seed: int = 0) -> Synthetic:
    """LN1 of the PKG paper: 16 k keys, p1 = 14.71 %."""
    summary = "lognormal keys, μ = 1.789, σ = 2.366 (PKG's LN1: 16 k keys, p1 = 14.71 %)"
    published = PublishedStatistics("PKG, Table I: LN1", 10_000_000, 16_000, 0.1471)
    return Synthetic("LN1", summary, ("lognormal", 1.789, 2.366), records, seed, published)


def lognormal_2(*, records: int = 10_000_000, seed: int = 0) -> Synthetic:
    """LN2 of the PKG paper: 1.1 k keys, p1 = 7.01 %."""
    summary = "lognormal keys, μ = 2.245, σ = 1.133 (PKG's LN2: 1.1 k keys, p1 = 7.01 %)"
    published = PublishedStatistics("PKG, Table I: LN2", 10_000_000, 1_100, 0.0701)
    return Synthetic("LN2", summary, ("lognormal", 2.245, 1.133), records, seed, published)


def drifting_zipf(
    z: float = 1.1,
    keys: int = 10_000,
    every: int = 1_000_000,
    step: int = 10,
    *,
    records: int = 10_000_000,
    seed: int = 0,
) -> Synthetic:
    """DRIFTING_ZIPF: after every ``every`` records, each key's rank passes to the key ``step`` further."""
    _require_number("z", z, 0, _STEEPEST)
    _require_number("keys", keys, 1, _MOST_KEYS)
    _require_number("every", every, 1, 10**12)
    _require_number("step", step, 0, keys)
    summary = f"Zipf keys whose ranks rotate by {step} every {every:,} records: z = {z:g}, K = {keys:,}"
    return Synthetic("DRIFTING_ZIPF", summary, ("drifting", z, keys, every, step), records, seed)


def posg_uniform(items: int = 4096, *, records: int = 32_768, seed: int = 0) -> Synthetic:
    """POSG_UNIFORM: m = 32,768 tuples of n = 4096 items, all equally likely (POSG, Section V-A)."""
    _require_number("items", items, 1, _MOST_KEYS)
    return Synthetic("POSG_UNIFORM", f"POSG's items, uniform: n = {items:,}", ("uniform", items), records, seed)


def posg_zipf(alpha: float = 1.0, items: int = 4096, *, records: int = 32_768, seed: int = 0) -> Synthetic:
    """POSG_ZIPF: m = 32,768 tuples of n = 4096 items with Zipfian frequencies, α from 0.5 to 3 (POSG, Section V-A)."""
    _require_number("alpha", alpha, 0, _STEEPEST)
    _require_number("items", items, 1, _MOST_KEYS)
    summary = f"POSG's items, Zipf-{alpha:g}: n = {items:,}"
    return Synthetic("POSG_ZIPF", summary, ("zipf", alpha, items), records, seed)


def _require_number(name: str, value: float, least: float, most: float) -> None:
    # The check is here as the stream itself, which has one too, is made only when the first block is read.
    if not least <= value <= most:
        raise ValueError(f"{name} is {value:,}; valid: {least:,} to {most:,}")
