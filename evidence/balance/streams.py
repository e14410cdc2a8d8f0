"""The streams of the balance tables: as `unskew simulate` spells them, and as files where it has no generator.

    python -m evidence.balance.streams FOLDER [--tuples N] [--seed N]

The files are Parquet with a column ``key``, for ``unskew simulate FOLDER/NAME.parquet:key``. *sorted*: a key's tuples
in one stretch, hot ones here and there. *bursts*: each key that is drawn comes a thousand times in a row. *flashes*: of
equal keys, in each window another one has four fifths of a quarter of the tuples, and then no more. *adversary-S*: for
S sources in turns, of which none sees that the keys of all together aren't hot (evidence/balance/theory.md).
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unskew.grouping.streams import CHUNK, KeyStream, hot, uniform, zipf

WINDOW, BURST, KEYS = 100_000, 1_000, 4096
#: A page's name → `unskew simulate`'s.
STREAMS = {
    **{f"R{percent}": f"hot:share={percent / 100}" for percent in range(0, 101, 10)},
    "HALF_SKEW R80": "COUNTRY_HALF_SKEW_R80",
    **{
        f"Zipf {z}, {n} keys": f"zipf:z={z},k={k}"
        for n, k in (("10k", 10_000), ("1M", 10**6))
        for z in (0.5, 1.0, 1.4, 2.0)
    },
    "drifting Zipf": "drifting",
    "fast drift": f"drifting:every={WINDOW}",
    "LN1": "lognormal",
    "LN2": "lognormal:mu=2.245,sigma=1.133",
    "TICKER": "TWITTER_TICKER",
    "ELECTION": "TWITTER_ELECTION",
    "PAGEVIEWS": "WIKIPEDIA_PAGEVIEWS",
    "BY_LANG": "WIKIPEDIA_PAGEVIEWS_BY_LANG",
    "CLICKSTREAM": "WIKIPEDIA_CLICKSTREAM",
}
#: The sources of the adversary's streams → n, of whose keys each source gets one in n. The n that need most replicas.
ADVERSARY = {2: 2, 4: 2, 16: 3, 64: 6}

Of = NDArray[np.int64]


def sort_stream(stream: KeyStream, n: int, seed: int) -> Of:
    """The keys in the order of their text."""
    distinct, count = np.unique(stream.take(0, n, seed), return_counts=True)
    order = np.argsort(distinct.astype(str))
    return np.repeat(distinct[order], count[order])


def draw_bursts(stream: KeyStream, n: int, seed: int) -> Of:
    """Each key that is drawn, a thousand times in a row."""
    return np.repeat(stream.take(0, -(-n // BURST), seed), BURST)[:n]


def draw_flashes(n: int, seed: int) -> Of:
    """Equal keys, one of which is hot for a quarter of a window."""
    keys = uniform(KEYS).take(0, n, seed)
    for at in range(0, n, WINDOW):
        flash = keys[at + WINDOW // 2 : at + WINDOW * 3 // 4]
        flash[np.arange(len(flash)) % 5 > 0] = keys[at]
    return keys


def draw_adversary(sources: int, n: int, seed: int, workers: int = 100) -> Of:
    """The sources come in turns, each with all its keys once a round, in any order."""
    rng, length, parts = np.random.default_rng(seed), n // sources, []
    for _ in range(sources):
        own = np.flatnonzero(rng.random(ADVERSARY[sources] * workers) < 1 / ADVERSARY[sources])
        rounds = np.tile(own, (length // len(own) + 1, 1))
        parts.append(rng.permuted(rounds, axis=1).ravel()[:length])
    return np.stack(parts, axis=1).ravel()


def draw_changes(million: int = 1_000_000) -> Iterator[tuple[str, Of]]:
    """The parts of a stream that changes: uniform, then one key has 80 %, then another, then uniform."""
    quiet, heated = uniform(KEYS), hot(0.8, KEYS)
    yield "uniform", quiet.take(0, 2 * million)
    yield "a key of 80 %", heated.take(2 * million, 3 * million)
    yield "another one", (heated.take(3 * million, 4 * million) + 17) % KEYS
    yield "uniform again", quiet.take(4 * million, 5 * million)


def draw_all(n: int, seed: int) -> Iterator[tuple[str, Of]]:
    """The streams that have no generator."""
    for name, stream in (("uniform", uniform(KEYS)), ("zipf", zipf(1.0, 10_000))):
        yield f"{name}-sorted", sort_stream(stream, n, seed)
        yield f"{name}-bursts", draw_bursts(stream, n, seed)
    yield "flashes", draw_flashes(n, seed)
    for sources in ADVERSARY:
        yield f"adversary-{sources}", draw_adversary(sources, n, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("out/streams"))
    parser.add_argument("--tuples", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, keys in draw_all(given.tuples, given.seed):
        pq.write_table(pa.table({"key": keys}), given.folder / f"{name}.parquet", row_group_size=CHUNK)
        print(f"unskew simulate {given.folder / name}.parquet:key")


if __name__ == "__main__":
    main()
