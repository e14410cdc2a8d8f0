"""The job ``join`` without an engine: its streams, its truth against plain loops, and how contestants are started."""

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evidence.engines import contestants
from evidence.engines.contestants import CONTESTANTS, Contestant
from evidence.engines.jobs import JOBS, Found, Truth
from evidence.engines.joins import HOT_SHARE, KEYS, WITHIN_MS, Side, code_pair, draw_sides, sum_pairs

JOB = JOBS["join"]


def pair_plainly(left, right):
    """(key, left id, right id) of all pairs."""
    partners = [*zip(*(column.tolist() for column in right), strict=True)]
    for key, row, at in zip(*(column.tolist() for column in left), strict=True):
        yield from ((key, row, other) for of, other, when in partners if of == key and abs(when - at) <= WITHIN_MS)


def make_sides():
    """Few keys, so that each has pairs, and times in any order, of which many are just as far apart as they may be."""
    random = np.random.default_rng(5)
    return [
        Side(random.integers(0, 5, n), random.permutation(n), 1_700_000_000_000 + 250 * random.integers(0, 40, n))
        for n in (300, 40)
    ]


def test_half_of_the_left_rows_are_hot_and_pairs_grow_with_the_rows():
    for records in (22_000, JOB.records):
        left, right = draw_sides(records)
        assert len(left.key) + len(right.key) == records
        assert len(left.key) == pytest.approx(10 * len(right.key), rel=0.001)
        assert (left.key == 0).mean() == pytest.approx(HOT_SHARE, abs=0.02)
        assert np.bincount(right.key, minlength=KEYS).max() < 0.01 * len(right.key)
        assert left.at[-1] == pytest.approx(right.at[-1], abs=20), "both streams are as long"
        sums = sum_pairs(left, right)
        of_all = sum(n for (number, _), n in sums.items() if number == 0)
        assert of_all == pytest.approx(len(left.key), rel=0.6), "one partner in the mean"
        assert sums[0, "0"] > 0.2 * of_all


def test_the_truth_is_that_of_a_plain_loop():
    left, right = make_sides()
    pairs = [*pair_plainly(left, right)]
    times = [dict(zip(side.id.tolist(), side.at.tolist(), strict=True)) for side in (left, right)]
    assert {times[1][other] - times[0][row] for _, row, other in pairs} >= {-WITHIN_MS, 0, WITHIN_MS}
    numbers, codes = Counter(), Counter()
    for key, row, other in pairs:
        numbers[0, str(key)] += 1
        codes[1, str(key)] += code_pair(row, other)
    assert sum_pairs(left, right) == numbers | codes
    nothing = Side(*np.zeros((3, 0), np.int64))
    for sides in ((left, nothing), (nothing, right), (nothing, nothing)):
        with pytest.raises(ValueError, match="make no pair; valid: more records"):
            sum_pairs(*sides)


def test_a_pair_that_is_missing_repeated_or_of_other_rows_is_wrong():
    left, right = make_sides()
    sums = sum_pairs(left, right)
    truth = Truth(sums, sum(sums.values()))
    read = CONTESTANTS["Flink"].reading(JOB)

    def judge(pairs):
        found = Found(JOB.once, JOB.query)
        for key, row, other in pairs:
            found.add(read(None, f'{{"key":"{key}","left":{row},"right":{other}}}'.encode()), 10)
        assert found.all_of(truth) == (not found.wrong(truth))
        return found.wrong(truth)

    pairs = [*pair_plainly(left, right)]
    assert not judge(pairs)
    assert not judge(pairs[::-1])
    assert "2 of 10 results are wrong" in judge(pairs[1:])
    assert "2 of 10 results are wrong" in judge([*pairs, pairs[-1]])
    one, other = next((a, b) for a in pairs for b in pairs if a[0] == b[0] and a[1] != b[1] and a[2] != b[2])
    changed = [each for each in pairs if each not in (one, other)]
    swapped = [*changed, (*one[:2], other[2]), (*other[:2], one[2])]
    assert "1 of 10 results are wrong" in judge(swapped), "so many pairs, but other ones"


def test_contestants_with_a_program_do_the_join_and_those_of_the_join_nothing_else():
    ours = {"KEY", "balanced_join", "groupBy", "salted", "Flink", "Kafka Streams"}
    assert {name for name, each in CONTESTANTS.items() if each.does(JOB)} == ours
    for name in ("balanced_join", "salted"):
        assert [job.name for job in JOBS.values() if CONTESTANTS[name].does(job)] == ["join"]


@pytest.fixture
def without_engines(monkeypatch, tmp_path):
    """No engine is installed, and none of its programs is compiled."""
    monkeypatch.setattr(contestants, "connector_jars", lambda: [Path("a.jar"), Path("b.jar")])
    monkeypatch.setattr(contestants, "find_java", lambda: SimpleNamespace(home=Path("java")))
    monkeypatch.setattr(contestants, "prepare_python", lambda: "python")
    monkeypatch.setattr(contestants, "python_of", lambda of: tmp_path / of / "python")
    monkeypatch.setattr(contestants, "jars_of", lambda _: [Path("c.jar")])
    monkeypatch.setattr(contestants, "compile_programs", lambda *_, **__: ["java"])
    monkeypatch.setattr(contestants, "write", lambda *_: None)
    settings = tmp_path / "lib" / "python3" / "site-packages" / "pyflink" / "conf" / "config.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("env.java.opts.all: --add-opens=java.base/java.util=ALL-UNNAMED")


@pytest.mark.usefixtures("without_engines")
@pytest.mark.parametrize("engine", CONTESTANTS.values(), ids=CONTESTANTS)
def test_each_argument_that_a_programs_usage_names_has_a_value(engine: Contestant, tmp_path):
    jobs = [job for job in JOBS.values() if engine.does(job)]
    for job in jobs:
        (tmp_path / job.name).mkdir()
        started = engine.start(job, "broker:9092", f"engines-{job.name}", tmp_path / job.name)
        assert "broker:9092" in started.command
        assert job.joins or f"engines-{job.name}" in started.command
    assert jobs or engine.name == "BOUNDED_LOAD, changes", "it follows streams alone"


@pytest.mark.usefixtures("without_engines")
@pytest.mark.parametrize(
    "engine", [each for each in CONTESTANTS.values() if each.does(JOB)], ids=lambda each: each.name
)
def test_a_contestant_is_started_with_the_arguments_of_its_program(engine: Contestant, tmp_path):
    folder = Path(contestants.__file__).parent
    started = engine.start(JOB, "broker:9092", "engines-join", tmp_path)
    program, *given = started.command[1:]
    source = Path(program) if program.endswith("join.py") else folder / engine.engine / f"{program}.java"
    usage = re.search(r"(?:python join\.py|java Join) (.+)", source.read_text())
    assert usage is not None, "the program says how it is called"
    named = dict(zip(usage[1].split(), given, strict=True))
    assert {name: named[name] for name in ("BOOTSTRAP", "LEFT", "RIGHT", "OUTPUT", "WORKERS")} == {
        "BOOTSTRAP": "broker:9092",
        "LEFT": "engines-join",
        "RIGHT": "engines-join-right",
        "OUTPUT": started.output,
        "WORKERS": "2",
    }
    assert named["LATE_MS"] == ("2400000" if engine.name == "Kafka Streams" else "10000")
    of_engine = {"groupBy": {"SALTS": "0"}, "salted": {"SALTS": "8"}}
    of_engine |= {name: {"FORM": name} for name in ("KEY", "balanced_join")}
    assert of_engine.get(engine.name, {}).items() <= named.items()


def test_programs_in_other_environments_have_the_same_interval():
    folder = Path(contestants.__file__).parent
    seconds = WITHIN_MS // 1000
    assert f"Duration.ofSeconds({seconds})" in (folder / "kafka_streams" / "Join.java").read_text()
    assert (folder / "flink" / "join.py").read_text().count(f"INTERVAL '{seconds}' SECOND") == 2
