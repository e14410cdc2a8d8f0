"""Section 4.2: heavy hitters by SpaceSaving, a summary a worker, merged: the error and the load by grouping."""

import numpy as np
from numpy.typing import NDArray

from evidence.papers.page import Cell, Report, Sizing, headings
from evidence.papers.pkg.datasets import explain_count, route_in_batches
from unskew.grouping import streams
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.measures import straggler_ratio

MESSAGES = 10_000_000
ITEMS, COUNTERS, TOP = 100_000, 200, 50
EXPONENTS = (0.8, 1.1)
WORKERS = (5, 20, 100)
SCHEMES = ("KEY", "PARTIAL_KEY", "SHUFFLE", "PLANNED")


def heavy_hitters(settings: Sizing) -> Report:
    """Error of the most frequent items and load, over the skew, the workers and the grouping."""
    m = settings.of(MESSAGES, least=200_000)
    rows: list[tuple[Cell, ...]] = []
    alone: list[str] = []
    for z in EXPONENTS:
        items = streams.zipf(z, ITEMS).take(0, m, seed=settings.seed)
        _, error, _ = _merge(items, np.zeros(m, np.int32), 1, everywhere=True)
        alone.append(f"{error:,.0f} for z = {z}")
        for workers in WORKERS:
            for scheme in SCHEMES:
                assigned = route_in_batches(scheme, items, workers, settings.seed)
                terms, error, found = _merge(items, assigned, workers, everywhere=scheme == "SHUFFLE")
                paper = {"KEY": 1, "PARTIAL_KEY": 2, "SHUFFLE": workers}.get(scheme)
                load = straggler_ratio(np.bincount(assigned, minlength=workers))
                rows.append((z, workers, scheme, paper, terms, error, found, load, explain_count(paper, terms)))
    columns = headings(
        f"z | W | grouping | paper: terms | ours | mean error | of the top {TOP} found, % | max/mean load | "
        "why they differ"
    )
    notes = [
        f"{m:,} messages, Zipf over {ITEMS:,} items, {COUNTERS} counters a worker. The paper prints no figures; it",
        "says that an item's error is a sum of so many terms: one for each summary that may have the item.",
        f"Ours: summaries that have seen one of the true top {TOP}, on average. Mean error: messages by which its",
        "merged count is off.",
        "An item that a worker has no counter for may have its least count there; the merger knows an item's workers,",
        "except with SHUFFLE. There errors are large but alike, so most items keep their order; by PARTIAL_KEY they",
        "are as large as the least counts of the item's two workers, so few messages may pass for many.",
        f"One worker alone, with all messages and {COUNTERS} counters, is off by {' and '.join(alone)}. SHUFFLE is as",
        "bad for any W: it has W terms, but each is bounded by a W-th of the messages over the counters. By KEY and",
        "PARTIAL_KEY the number of terms is fixed, so the error falls with W, below the sequential case's. PARTIAL_KEY",
        "isn't balanced where p1 > 2/W.",
        "a: there are so few messages that not each worker that may have an item has got one.",
    ]
    return Report("PKG, section 4.2: heavy hitters by merged SpaceSaving summaries", columns, rows, notes)


def _merge(
    items: NDArray[np.int64], assigned: NDArray[np.int32], workers: int, *, everywhere: bool
) -> tuple[float, float, float]:
    """Merge the workers' summaries: mean terms and mean error of the true top, and which % of it are found.

    ``everywhere``: any worker may have any item.
    """
    true = np.bincount(items, minlength=ITEMS)
    top = np.argsort(-true, kind="stable")[:TOP]
    seen = np.zeros((workers, ITEMS), np.bool_)
    seen[assigned, items] = True
    estimates = np.zeros(ITEMS, np.int64)
    for worker in range(workers):
        names, counts = _summarise(items[assigned == worker], ITEMS, COUNTERS)
        here = np.full(ITEMS, counts.min())
        here[names[names >= 0]] = counts[names >= 0]
        estimates += np.where(seen[worker] | everywhere, here, 0)
    found = np.isin(np.argsort(-estimates, kind="stable")[:TOP], top)
    errors = np.abs(estimates - true)[top]
    return float(seen[:, top].sum(axis=0).mean()), float(errors.mean()), 100 * float(found.mean())


@kernel
def _summarise(items: NDArray[np.int64], distinct: int, counters: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """SpaceSaving: the items that have a counter (−1: none) and their counts, int64[counters]."""
    names, counts = np.full(counters, -1), np.zeros(counters, np.int64)
    position = np.full(distinct, -1)
    for item in items:
        at = position[item]
        if at < 0:
            at = counts.argmin()  # an unused counter, or the item that has the least
            if names[at] >= 0:
                position[names[at]] = -1
            names[at], position[item] = item, at
        counts[at] += 1
    return names, counts
