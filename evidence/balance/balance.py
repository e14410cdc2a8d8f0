"""How balanced, and for how many replicas: all groupings on many streams, as in evidence/balance/figures.md.

    python -m evidence.balance.balance [GROUPING[:option=value,...] ...] [--streams NAME ...] [--workers W ...]
                                 [--sources S ...] [--seeds N] [--tuples N] [--show FIGURE ...] [--spread]
                                 [--csv FILE] [--read CSV] [--picture FILE]

*Lasting* is the mean, over the windows of 100,000 tuples in the second half of the stream, of a window's greatest load
over its mean load, and *worst* is the greatest of these windows. *Replication* is how many workers a key was on, the
mean over the keys of the whole stream. *Added* is how many replicas there were besides each key's first: of a million
keys, a replication of 1.2 is 200,000 more. The *bound* is what an assignment needs that knows the stream and has no
load above 1.1 times the mean: Σ max(1, ⌈p·W/1.1⌉) over the keys, divided by their number. Of several seeds (of the
stream and of the hash functions), the worst is shown, or with ``--spread`` the lowest and the highest.
"""

import argparse
import csv
from ast import literal_eval
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from matplotlib import pyplot as plt
from numba import njit

from evidence.balance.tables import open_table
from unskew.apps.metrics.colours import get_colour
from unskew.grouping import GROUPINGS, add_sources, create, encode_keys
from unskew.grouping.keys import Keys
from unskew.grouping.simulator.sources import Substreams
from unskew.grouping.streams import drifting, hot, lognormal, uniform, zipf
from unskew.producers.datasets import registry

WINDOW, BURST, CAP = 100_000, 1_000, 1.1


def dataset(name):
    """The keys of one of the producers' datasets."""

    def take(n, seed):
        blocks = registry.create_dataset(name, records=n, seed=seed).blocks()
        return pa.chunked_array([block.keys.cast(pa.string()) for block in blocks])[:n]

    return take


def law(stream):
    """The keys of one of ``unskew.grouping.streams``."""
    return lambda n, seed: stream.take(0, n, seed)


def ordered(stream):
    """The keys of a stream in the order of their text, so that hot ones are here and there."""

    def take(n, seed):
        distinct, count = np.unique(stream.take(0, n, seed), return_counts=True)
        order = np.argsort(distinct.astype(str))
        return np.repeat(distinct[order], count[order])

    return take


def bursts(stream):
    """Each key that is drawn comes a thousand times in a row."""
    return lambda n, seed: np.repeat(stream.take(0, -(-n // BURST), seed), BURST)[:n]


def flashes(n, seed):
    """Equal keys; in each window another one of them has four fifths of a quarter of the tuples, and then no more."""
    keys = uniform().take(0, n, seed)
    for at in range(0, n, WINDOW):
        flash = keys[at + WINDOW // 2 : at + WINDOW * 3 // 4]
        flash[np.arange(len(flash)) % 5 > 0] = keys[at]
    return keys


#: Name → a function of how many tuples and a seed, which returns their keys.
STREAMS = {
    **{f"R{percent}": law(hot(percent / 100)) for percent in range(0, 101, 10)},
    "HALF_SKEW R80": dataset("COUNTRY_HALF_SKEW_R80"),
    **{f"Zipf {z}, 10k keys": law(zipf(z, 10_000)) for z in (0.5, 1.0, 1.4, 2.0)},
    **{f"Zipf {z}, 1M keys": law(zipf(z, 1_000_000)) for z in (0.5, 1.0, 1.4, 2.0)},
    "drifting Zipf": law(drifting()),
    "fast drift": law(drifting(1.1, 10_000, WINDOW, 10)),
    "LN1": law(lognormal()),
    "LN2": law(lognormal(2.245, 1.133)),
    "TICKER": dataset("TWITTER_TICKER"),
    "ELECTION": dataset("TWITTER_ELECTION"),
    "PAGEVIEWS": dataset("WIKIPEDIA_PAGEVIEWS"),
    "BY_LANG": dataset("WIKIPEDIA_PAGEVIEWS_BY_LANG"),
    "CLICKSTREAM": dataset("WIKIPEDIA_CLICKSTREAM"),
}
#: The same for streams in which a key's tuples come one after the other (all of them, or a thousand at a time), and for
#: one in which keys are hot for less than a window.
ORDERED = {
    "uniform, sorted": ordered(uniform()),
    "Zipf 1.0, 10k keys, sorted": ordered(zipf(1.0, 10_000)),
    "uniform, in bursts": bursts(uniform()),
    "Zipf 1.0, 10k keys, in bursts": bursts(zipf(1.0, 10_000)),
    "uniform, with flashes": flashes,
}
#: Stream → the number of stretches with other shares of keys; each stretch counts for the bound.
CHANGES = {"HALF_SKEW R80": 2, "drifting Zipf": 2, "fast drift": 20}


def variant(text):
    """Read a grouping with options, ``NAME`` or ``NAME:option=value,...``: its name and its options.

    >>> variant("d_choices:half_life=100_000,own_choices=True")
    ('D_CHOICES', {'half_life': 100000, 'own_choices': True})
    """
    name, _, options = text.partition(":")
    pairs = [option.split("=") for option in options.split(",") if option]
    return name.upper(), {option: literal_eval(value) for option, value in pairs}


class Found(NamedTuple):
    """The figures of one grouping on one stream, with one seed."""

    grouping: str
    stream: str
    workers: int
    sources: int
    seed: int
    bound: float
    replication: float
    lasting: float
    added: int
    worst: float


#: Figures that a table may show, and how.
SHOWN = {"replication": ".2f", "lasting": ".2f", "added": ",.0f", "worst": ".2f"}


def bound(codes, workers, stretches=1, cap=CAP):
    """The least replicas a key of any assignment with loads of at most ``cap`` times the mean."""
    parts = np.array_split(codes, stretches)
    share = np.max([np.bincount(part, minlength=codes.max() + 1) / len(part) for part in parts], axis=0)
    return float(np.maximum(1, np.ceil(share * workers / cap)).mean())


def bound_of_windows(codes, workers, cap=CAP):
    """The replicas a key that any scheme needs if no window of the second half has a load above ``cap`` times the mean.

    This holds even of a scheme that knows the future: a key of n tuples in a window of T is on at least
    n / (cap · T/W) workers.
    """
    starts = range(len(codes) // WINDOW // 2 * WINDOW, len(codes) - WINDOW + 1, WINDOW)
    most = np.max([np.bincount(codes[at : at + WINDOW], minlength=codes.max() + 1) for at in starts], axis=0)
    return float(np.maximum(1, np.ceil(most * workers / cap / WINDOW - 1e-9)).mean())


@njit
def _pairs(codes, chosen, keys, workers):
    seen = np.zeros((keys, (workers + 63) // 64), np.uint64)
    pairs = 0
    for i in range(len(codes)):
        bit = np.uint64(1) << np.uint64(chosen[i] & 63)
        if not seen[codes[i], chosen[i] >> 6] & bit:
            seen[codes[i], chosen[i] >> 6] |= bit
            pairs += 1
    return pairs


def routed(grouping, keys, workers, sources, seed):
    """The worker of each tuple.

    The sources get the tuples in turns. Each has a router of its own, or all share one if the grouping does that.
    Groupings that look at batches get batches of 100,000 tuples.
    """
    name, given = variant(grouping)
    options = add_sources(name, sources, given)
    if GROUPINGS[name].batched:
        return planned(create(name, workers, seed=seed, **options), keys, sources)
    routers = [create(name, workers, seed=seed, **options) for _ in range(sources)]
    if routers[0].shared:
        routers = routers[:1]
    chosen = np.empty(len(keys), np.int32)
    for number, router in enumerate(routers):
        router.at_source(number)
        own = slice(number, None, len(routers))
        router.fit(Keys(keys.codes[own], keys.hashes, keys.distinct))
        part = keys.codes[own]
        times = np.arange(len(part)) * (600_000 / len(part))  # ten minutes
        chosen[own] = router.route(Keys(part, keys.hashes, keys.distinct), times=times.astype(np.int64), costs=1.0)
    return chosen


def planned(planner, keys, sources):
    """The worker of each tuple, if all sources' counts of a batch meet."""
    chosen = np.empty(len(keys), np.int32)
    cut = Substreams(keys)
    for start in range(0, len(keys), WINDOW):
        own = [slice(start + number, start + WINDOW, sources) for number in range(sources)]
        for one, workers in zip(
            own, planner.route_together([cut.part(one) for one in own], [1.0] * sources), strict=True
        ):
            chosen[one] = workers
    return chosen


def loads(chosen, workers):
    """Max/mean of each window of the second half."""
    starts = range(len(chosen) // WINDOW // 2 * WINDOW, len(chosen) - WINDOW + 1, WINDOW)
    return [np.bincount(chosen[at : at + WINDOW], minlength=workers).max() * workers / WINDOW for at in starts]


def replicas(keys, chosen, workers):
    """How many workers the keys were on, all keys together."""
    return _pairs(keys.codes, chosen, len(keys.hashes), workers)


def measure(keys, chosen, workers):
    """Lasting balance and replication."""
    return float(np.mean(loads(chosen, workers))), replicas(keys, chosen, workers) / len(keys.hashes)


def compare(names, arguments):
    """The figures of all combinations, one after the other."""
    for stream in arguments.streams:
        for seed in range(arguments.seeds):
            keys = encode_keys({**STREAMS, **ORDERED}[stream](arguments.tuples, seed))
            for workers in arguments.workers:
                least = bound(keys.codes, workers, CHANGES.get(stream, 1))
                for sources, name in product(arguments.sources, names):
                    chosen = routed(name, keys, workers, sources, seed)
                    of = name, stream, workers, sources, seed, least
                    windows, distinct = loads(chosen, workers), len(keys.hashes)
                    total = replicas(keys, chosen, workers)
                    yield Found(*of, total / distinct, float(np.mean(windows)), total - distinct, max(windows))


def show(found, figures, spread):
    """Print a Markdown table: of each stream, and number of workers and of sources, figures of each grouping."""
    names = list(dict.fromkeys(one.grouping for one in found))
    by_sources = len({one.sources for one in found}) > 1
    print(f"| stream | W |{' S |' if by_sources else ''} bound | {' | '.join(names)} |")
    print("| --- " + "| ---: " * (len(names) + 2 + by_sources) + "|")
    for case in dict.fromkeys((one.stream, one.workers, one.sources) for one in found):
        of = [one for one in found if (one.stream, one.workers, one.sources) == case]
        rows = [[one for one in of if one.grouping == name] for name in names]
        cells = [", ".join(_text(row, figure, spread) for figure in figures) if row else "" for row in rows]
        heads = [case[0], str(case[1]), *([str(case[2])] if by_sources else [])]
        print(f"| {' | '.join(heads)} | {max(one.bound for one in of):.2f} | {' | '.join(cells)} |")


def _text(row, figure, spread):
    """A figure of several seeds: the worst, or all from the lowest to the highest."""
    low, high = (f"{end(getattr(one, figure) for one in row):{SHOWN[figure]}}" for end in (min, max))
    return f"{low}–{high}" if spread and low != high else high


def draw(found, path):
    """Draw the worst window over the added replicas for the greatest W, a panel for each stream."""
    workers = max(one.workers for one in found)
    sources = min(one.sources for one in found)
    found = [one for one in found if (one.workers, one.sources, one.seed) == (workers, sources, 0)]
    streams = list(dict.fromkeys(one.stream for one in found))
    figure, panels = plt.subplots(-(-len(streams) // 5), 5, figsize=(15, 2.6 * -(-len(streams) // 5)), sharey=True)
    for axes in panels.flat[len(streams) :]:
        axes.axis("off")
    for axes, stream in zip(panels.flat, streams, strict=False):
        shown = [one for one in found if one.stream == stream]
        for one in shown:
            point = (one.added, max(one.worst - 1, 1e-3))
            size = 70 if one.grouping in ("BOUNDED_LOAD", "PLANNED") else 30
            axes.scatter(
                *point, s=size, color=get_colour(variant(one.grouping)[0]), label=one.grouping, zorder=3, clip_on=False
            )
        axes.axhline(CAP - 1, color="grey", linewidth=0.9)
        axes.set_xscale("symlog", linthresh=10)
        axes.set(yscale="log", xlim=(-2, 2 * max(10, *(one.added for one in shown))), ylim=(8e-4, workers))
        axes.set_title(stream, fontsize=9)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.supxlabel("replicas besides each key's first", fontsize=10)
    figure.supylabel("worst window's max/mean − 1 (0.001 or less at the bottom); grey: 0.1", fontsize=10)
    handles = panels.flat[0].get_legend_handles_labels()
    figure.legend(*handles, loc="upper center", ncols=6, fontsize="small")
    figure.tight_layout(rect=(0.01, 0.005, 1, 0.955))
    figure.savefig(path, dpi=75)


def read(path):
    """The figures in a file that ``--csv`` wrote."""
    with open_table(path) as file:
        for row in csv.DictReader(file):
            numbers = [int(row[field]) for field in ("workers", "sources", "seed")]
            yield Found(row["grouping"], row["stream"], *numbers, *(float(row[field]) for field in Found._fields[5:]))


def write(found, path):
    """Write a row for each combination."""
    with open_table(path, "w") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(Found._fields)
        rows.writerows([f"{value:.4f}" if isinstance(value, float) else value for value in one] for one in found)


def main():
    """Compare the groupings in the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    without = [name for name in GROUPINGS if create(name, 1).controller() is None]
    parser.add_argument("groupings", nargs="*", metavar="GROUPING", help="default: all that need no feedback")
    parser.add_argument("--streams", nargs="+", choices=[*STREAMS, *ORDERED], default=list(STREAMS), metavar="NAME")
    parser.add_argument("--workers", nargs="+", type=int, default=[10, 50, 100])
    parser.add_argument("--sources", nargs="+", type=int, default=[1])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tuples", type=int, default=2_000_000)
    parser.add_argument("--show", nargs="+", choices=list(SHOWN), default=["replication", "lasting"], metavar="FIGURE")
    parser.add_argument("--spread", action="store_true", help="of several seeds, show the lowest and the highest")
    parser.add_argument("--csv", type=Path, help="write what was found into this file")
    parser.add_argument("--read", type=Path, metavar="CSV", help="show what was found earlier")
    parser.add_argument("--picture", type=Path, help="draw the greatest W into this file")
    arguments = parser.parse_args()
    names = arguments.groupings or without
    found = list(read(arguments.read) if arguments.read else compare(names, arguments))
    show(found, arguments.show, arguments.spread)
    if arguments.csv:
        write(found, arguments.csv)
    if arguments.picture:
        draw(found, arguments.picture)


if __name__ == "__main__":
    main()
