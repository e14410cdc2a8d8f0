"""Section 4.1: how many histograms a streaming parallel decision tree keeps, by grouping, and what merging them costs.

A message has D features, and belongs to a class and to a leaf. With shuffle grouping it goes whole to a worker. With
the others each of its features is a tuple of its own, in random order, as many sources would mix them. The histograms
are the operator ``Histogram``'s.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evidence.papers.page import Cell, Report, Sizing, headings
from evidence.papers.pkg.datasets import explain_count, route_in_batches
from unskew.apps.operators import Histogram
from unskew.grouping.measures import straggler_ratio

FEATURES, CLASSES, LEAVES = 120, 2, 4
MESSAGES = 50_000
WORKERS = (5, 20, 100)
SCHEMES = ("KEY", "PARTIAL_KEY", "SHUFFLE", "PLANNED")
_DECILES = tuple(round(0.1 * step, 1) for step in range(1, 10))
_TRIPLETS = FEATURES * CLASSES * LEAVES


def decision_tree(settings: Sizing) -> Report:
    """Histograms at all workers, the most of a triplet, and the error of the merged ones, by grouping and workers."""
    m = settings.of(MESSAGES, least=2_000)
    random = np.random.default_rng(settings.seed)
    kind = random.integers(0, CLASSES * LEAVES, m)
    features = random.permuted(np.tile(np.arange(FEATURES), (m, 1)), axis=1).ravel()
    triplets = np.repeat(kind, FEATURES) * FEATURES + features
    values = random.normal(size=m * FEATURES) + triplets % 7
    rows: list[tuple[Cell, ...]] = []
    for workers in WORKERS:
        for scheme in SCHEMES:
            if scheme == "SHUFFLE":
                assigned = np.repeat(route_in_batches(scheme, np.arange(m), workers, settings.seed), FEATURES)
            else:
                assigned = route_in_batches(scheme, features, workers, settings.seed)
            kept, of_triplet, error = _build(triplets, values, assigned)
            paper = {"PARTIAL_KEY": 2 * _TRIPLETS, "SHUFFLE": workers * _TRIPLETS}.get(scheme)
            load = straggler_ratio(np.bincount(assigned, minlength=workers))
            rows.append((workers, scheme, paper, kept, of_triplet, load, 100 * error, explain_count(paper, kept)))
    columns = headings(
        "W | grouping | paper | ours | most of a triplet | max/mean load | rank error, % | why they differ"
    )
    notes = [
        f"Histograms at all workers. {m:,} messages of {FEATURES} features, {CLASSES} classes, {LEAVES} leaves:",
        f"{_TRIPLETS} triplets of feature, class and leaf (D·C·L). The paper has W·D·C·L for shuffle grouping, 2·D·C·L",
        "for PKG, where an aggregator merges W or 2 of a triplet. Most of a triplet: so many are merged for it.",
        "Rank error: the worst decile of any triplet's merged histogram of 64 bins, in % of the triplet's messages.",
        "a: a feature needs its second worker only if that one has less to do than the first: 2·D·C·L is the most.",
    ]
    return Report("PKG, section 4.1: histograms of a streaming parallel decision tree", columns, rows, notes)


def _build(
    triplets: NDArray[np.int64], values: NDArray[np.float64], assigned: NDArray[np.int32]
) -> tuple[int, int, float]:
    """Build the workers' histograms and merge them: how many there are, the most of a triplet, the worst rank error."""
    operator = Histogram(at=_DECILES)
    cells, slots = np.unique(assigned * np.int64(_TRIPLETS) + triplets, return_inverse=True)
    alone = operator.to_state(pa.RecordBatch.from_pydict({"value": values}))
    histograms = operator.merge(alone, pa.array(slots.astype(np.int32)), len(cells))
    there, owners = np.unique(cells % _TRIPLETS, return_inverse=True)
    merged = operator.merge(histograms, pa.array(owners.astype(np.int32)), len(there))
    quantiles = operator.result(merged).column("quantiles").to_pylist()
    order = np.lexsort((values, triplets))
    bounds = np.searchsorted(triplets[order], [*there, _TRIPLETS])
    worst = 0.0
    for found, start, stop in zip(quantiles, bounds[:-1], bounds[1:], strict=True):
        ranks = np.searchsorted(values[order][start:stop], found) / (stop - start)
        worst = max(worst, float(np.abs(ranks - _DECILES).max()))
    return len(cells), int(np.bincount(owners).max()), worst
