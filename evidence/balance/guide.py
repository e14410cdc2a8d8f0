"""The table and the picture of grouping/README.md: every grouping on two skewed streams, simulated.

    python -m evidence.balance.guide [PICTURE]

Five sources, ten minutes, workers busy 75 % of the time if they share evenly; feedback every second, 100 ms late.
*tail*: Zipf (z = 1.1) over 100,000 keys, 20 workers. *hot*: the country stream R80, in which one key has four of five
tuples, 10 workers. Imbalance is max load − mean load, as a fraction of the tuples: of the whole stream, and of the
ten-second slices of its second half. The latter is high where a scheme balances only in the long run.
"""

import argparse
import textwrap
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from unskew.apps.metrics.colours import get_colour
from unskew.grouping import GROUPINGS, create
from unskew.grouping.simulator import FeedbackTiming, make_arrivals, make_workload, simulate
from unskew.grouping.streams import hot, zipf

TUPLES, MINUTES, SLICES, BUSY = 600_000, 10, 60, 0.75
STREAMS = {"tail": (zipf(1.1, 100_000), 20), "hot": (hot(0.8), 10)}
TITLES = {"tail": "Zipf z = 1.1, 100,000 keys, W = 20", "hot": "one key with 80 %, W = 10"}
RANGES = {"tail": 3.2, "hot": 12}
TICKS = (1, 1.5, 2, 3, 5, 10)
ONE_TUPLE = SLICES / TUPLES  # as a fraction of a slice: a smaller imbalance can't be seen


def outcomes():
    """Stream → grouping → its outcome, and the mean imbalance of the slices of the second half."""
    found = {}
    for stream, (keys, workers) in STREAMS.items():
        cost = BUSY * workers * MINUTES * 60_000 / TUPLES
        load = make_workload(keys.take(0, TUPLES), make_arrivals(BUSY, cost, TUPLES, workers), cost)
        found[stream] = {}
        for name in GROUPINGS:
            outcome = simulate(
                lambda name=name, workers=workers: create(name, workers),
                load,
                sources=5,
                feedback=FeedbackTiming(interval=1000, delay=100),
                samples=SLICES,
            )
            slices = outcome.series["recent_imbalance_fraction"][SLICES // 2 :]
            found[stream][name] = outcome, float(slices.mean())
    return found


def show(found):
    """Print the table as Markdown."""
    print("| grouping | stream | workers a key | imbalance, whole | of a slice | p99 latency | state moved |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name in GROUPINGS:
        for stream in STREAMS:
            outcome, of_slice = found[stream][name]
            print(
                f"| {name} | {stream} | {outcome.replication:.2f} | {outcome.final_imbalance:.1e} | {of_slice:.1e} "
                f"| {outcome.p99_completion / 1000:,.2f} s | {outcome.migration:,.0f} |"
            )


def clusters(points):
    """Points (x, y), each with the names of all schemes whose points nearly coincide with it."""
    grouped = []
    for name, point in points.items():
        for first, names in grouped:
            near = np.abs(np.log10(point) - np.log10(first))
            if near[0] < 0.045 and near[1] < 0.25:
                names.append(name)
                first[0] = max(first[0], point[0])
                break
        else:
            grouped.append((list(point), [name]))
    return grouped


def draw(found, path):
    """Draw imbalance over replication: a point for each grouping, with its name beside it."""
    figure, panels = plt.subplots(1, 2, figsize=(12, 5.2), sharey=True)
    for axes, stream in zip(panels, STREAMS, strict=True):
        points = {name: (o.replication, max(of_slice, ONE_TUPLE)) for name, (o, of_slice) in found[stream].items()}
        for name, point in points.items():
            axes.scatter(*point, s=70, color=get_colour(name), zorder=3, clip_on=False)
        for point, names in clusters(points):
            text = textwrap.fill(", ".join(names), 34, break_long_words=False)
            left = point[0] > RANGES[stream] / 2
            raised = "\n" in text and point[1] > 0.1  # else it covers the points beside it
            axes.annotate(
                text,
                point,
                (-9 if left else 9, 7 if raised else 0),
                textcoords="offset points",
                fontsize=7.5,
                va="bottom" if raised else "center",
                ha="right" if left else "left",
            )
        axes.set(title=TITLES[stream], xlabel="workers a key (memory, aggregation)", xscale="log", yscale="log")
        axes.set_xticks(TICKS, map(str, TICKS))
        axes.minorticks_off()
        axes.set(xlim=(0.97, RANGES[stream]), ylim=(ONE_TUPLE * 0.8, 2.5))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("imbalance of ten seconds, fraction of the tuples")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    """Print the table; draw the picture into the file given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", nargs="?", type=Path, default=Path("grouping/guide.png"))
    picture = parser.parse_args().picture
    found = outcomes()
    show(found)
    draw(found, picture)


if __name__ == "__main__":
    main()
