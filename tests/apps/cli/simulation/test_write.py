"""`unskew simulate --write`: the files and tasks of a table that is partitioned by a stream's key."""

import json

import numpy as np
import pytest

from tests.commands import unskew
from unskew.apps.cli.simulation.write_report import compute_writes


def test_the_figures_are_those_of_writers_that_draw_their_rows():
    """A partition has half of the rows, and others have few: without a shuffle each task has rows of most."""
    rng, writers = np.random.default_rng(4), 8
    rows = np.array([20_000, *rng.integers(1, 400, 99)])
    hashes = rng.choice(2**62, 100, replace=False).astype(np.uint64)
    found = compute_writes(hashes, rows, writers)
    drawn = sum(len(np.unique(rng.integers(0, writers, count))) for count in rows.tolist())
    assert found["none"].files == pytest.approx(drawn, rel=0.02)
    assert found["hash"].files == 100
    assert found["hash"].fullest >= 20_000 / (rows.sum() / writers)
    assert 100 < found["balanced_write"].files <= 100 + writers - 1
    assert found["balanced_write"].fullest <= 1.0501
    assert {way: figures.files for way, figures in compute_writes(hashes, rows, 1).items()} == dict.fromkeys(found, 100)


def test_a_table_for_each_number_of_tasks():
    arguments = "hot:share=0.5,k=200", "--write", "--workers", "4,16", "--tuples", "20000"
    shown = unskew("simulate", *arguments)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("balanced_write") == 2
    assert "W = 16" in shown.stdout
    first, second = (json.loads(line) for line in unskew("simulate", *arguments, "--json").stdout.splitlines())
    assert [each["way"] for each in first["ways"]] == ["hash", "none", "balanced_write"]
    assert (first["rows"], first["partitions"], second["workers"]) == (20_000, 200, 16)
    for each in (first, second):
        hashed, _, balanced = each["ways"]
        assert hashed["files"] <= balanced["files"] <= hashed["files"] + each["workers"] - 1
        assert balanced["fullest"] <= 1.0501 < hashed["fullest"]
