"""Theorem 4.3: what a sketch's ratio is expected to be."""

import numpy as np

from reproduction.page import Report, Sizing
from unskew.grouping import encode
from unskew.grouping.posg.sketch import cells, expected_estimate

ITEMS, COLUMNS = 4096, 55


def theorem_4_3(settings: Sizing) -> Report:
    """The numeric case by the formula, and by hashing all items with our hash functions many times."""
    costs = np.repeat(np.arange(1, 65.0), ITEMS // 64)
    formula = expected_estimate(costs, COLUMNS)
    draws = settings.of(10_000, least=500)
    keys = encode(np.arange(ITEMS))
    total = np.zeros(ITEMS)
    for seed in range(settings.seed, settings.seed + draws):
        at = cells(keys, seed, 1, COLUMNS)[:, 0]
        sums, counts = np.bincount(at, costs, COLUMNS), np.bincount(at, minlength=COLUMNS)
        total += (sums / np.maximum(counts, 1))[at]
    of_value = total.reshape(64, -1).mean(axis=1) / draws
    rows = [
        ("least E(W_v/C_v)", "32.08", f"{formula.min():.3f}", f"{of_value.min():.3f}", "agree"),
        ("greatest E(W_v/C_v)", "32.92", f"{formula.max():.3f}", f"{of_value.max():.3f}", "agree"),
    ]
    columns = (
        "k = 55, n = 4096, w = 1 … 64",
        "paper",
        "ours, formula",
        f"ours, {draws:,} draws of h",
        "why they differ",
    )
    return Report("POSG, Theorem 4.3: the numeric case", columns, rows)
