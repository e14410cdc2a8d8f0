"""ShuffleBench's rules and events, against the loops of its own program; and the jobs after it, without an engine."""

import struct
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evidence.engines import environments
from evidence.engines.contestants import CONTESTANTS
from evidence.engines.jobs import Found, Records, truth_of_events
from evidence.engines.matcher import CIRCLE, EVERY, Matcher, first_longs, tuples, write
from evidence.engines.ours.shuffle import AtEachTenth, AtMerges
from evidence.engines.shufflebench import drawn, events, zipf
from tests.apps.stateful.driver import Driver
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, MergePeriod
from unskew.deploy.installation.machine import find_java


def matches(value, start, width):
    """RangeBasedMatchingRule.test."""
    return (value - start) % CIRCLE < width


def test_selectivities_are_those_of_zipf():
    assert zipf(4, 0.2, 0) == pytest.approx([0.05] * 4)
    assert zipf(4, 0.2, 1) == pytest.approx(np.array([12, 6, 4, 3]) / 125)
    assert zipf(1000, 0.2, 1.5).sum() == pytest.approx(0.2)


def test_each_tenth_tuple_is_an_event():
    """As AdvancedStateConsumer counts: to ten, and then from 0 again."""
    received = np.arange(35)
    expected = []
    for n in received:
        count = published = 0
        for _ in range(n):
            count += 1
            if count == EVERY:
                count, published = 0, published + 1
        expected.append(published)
    assert events(received).tolist() == expected


def hashes_of(values):
    return first_longs(values).astype(np.uint64) % np.uint64(CIRCLE)


@pytest.fixture
def matched(tmp_path):
    """Rules of which some go over the circle's end and one matches all, the folder with their segments, and records.

    100 records are random, and the others' hashes are the first ones of intervals, and those after the last ones. Half
    of all have the sign that a hash leaves out.
    """
    rules = drawn(np.append(zipf(200, 4.0, 1.0), 1.0), np.random.default_rng(5))
    assert (rules.starts + rules.widths > CIRCLE).sum() > 2
    write(rules, tmp_path)
    (block,) = Records(300, seed=7).blocks()
    values = block.messages.to_pylist()
    bounds = np.concatenate([rules.starts[:100], (rules.starts + rules.widths)[:100]]).tolist()
    edges = [struct.pack(">Q", (bound + n * CIRCLE) % (1 << 64)) for n, bound in enumerate(bounds)]
    at_edges = [edge + value[8:] for edge, value in zip(edges, values[100:], strict=True)]
    return rules, tmp_path, pa.array([*values[:100], *at_edges])


def test_a_record_goes_to_the_consumers_whose_rules_match_it(matched):
    rules, folder, values = matched
    assert set(map(len, values.to_pylist())) == {1024}
    numbers, consumers = Matcher(folder).match(values)
    intervals = [(int(start), int(width)) for start, width in zip(*rules, strict=True)]
    expected = [[c for c, rule in enumerate(intervals) if matches(h, *rule)] for h in hashes_of(values).tolist()]
    assert [sorted(consumers[numbers == number].tolist()) for number in range(300)] == expected
    assert len(consumers) > 600
    assert rules.received(hashes_of(values)).tolist() == np.bincount(consumers, minlength=201).tolist()


def batch_of(values):
    n = len(values)
    return pa.record_batch([values, pa.array(range(1000, 1000 + n)), pa.array([0] * n)], ["value", "at", "partition"])


def test_the_matcher_in_java_finds_the_same_consumers(matched):
    _, folder, values = matched
    source = Path(environments.__file__).with_name("Matcher.java")
    command = [str(find_java().launcher), "-XX:TieredStopAtLevel=1", str(source), str(folder)]
    done = subprocess.run(command, input=b"".join(values.to_pylist()), capture_output=True, check=True)
    expected, batch = [[] for _ in range(300)], batch_of(values)
    for found in tuples(str(folder))(iter([batch.slice(0, 100), batch.slice(100), batch.slice(0, 0)])):
        for consumer, at in zip(found["consumer"].to_pylist(), found["at"].to_pylist(), strict=True):
            expected[at - 1000].append(consumer)
    assert [line.split() for line in done.stdout.decode().splitlines()] == expected


def test_the_truth_is_every_tenth_record_and_a_program_that_does_nothing_is_wrong(matched):
    rules, _, values = matched
    truth = truth_of_events(rules, hashes_of(values))
    assert {n for n, name in truth.counts if name == "consumer_200"} == set(range(10, 301, 10))
    assert (truth.total, truth.messages) == (events(rules.received(hashes_of(values))).sum(), 300)
    found = Found(once=True)
    assert found.wrong(truth)
    for number, name in truth.counts:
        found.add(CONTESTANTS["MIXED"].event(name.encode(), struct.pack(">4q", number, -1, 0, 0)), 10)
    assert not found.wrong(truth)
    found.add([((10, "consumer_200"), 1)], 20)
    assert found.wrong(truth)
    with pytest.raises(ValueError, match="300 records make no event"):
        truth_of_events(drawn(np.full(1000, 1e-9), np.random.default_rng(0)), hashes_of(values))


def plain(tuples):
    """Each consumer's events as a plain loop has them: (consumer, count, what it knows then)."""
    states = {}
    for consumer, value, at in zip(*(tuples[name].to_pylist() for name in ("key", "value", "at")), strict=True):
        count, total, first = states.get(consumer, (0, 0, at))
        states[consumer] = count, total, _ = count + 1, (total + int.from_bytes(value[:8])) % (1 << 64), first
        if count % EVERY == 0:
            yield consumer, count, struct.pack(">qQqq", count, total, first, at)


@pytest.mark.parametrize("grouping", ["KEY", "BOUNDED_LOAD"])
def test_what_ours_writes_is_the_truth(matched, grouping):
    rules, folder, values = matched
    (found,) = tuples(str(folder))(iter([batch_of(values)]))
    given = found.rename_columns(["key", *found.schema.names[1:]])
    owned = grouping == "KEY"
    how = {} if owned else {"mergers": 10, "merge_every": MergePeriod.of("1 batch")}
    work = AtEachTenth() if owned else AtMerges()
    driver = Driver(KeyedOperatorConfig(work, pa.string(), 10, not owned, ttl_ms=86_400_000, **how), grouping)
    for number, (start, stop) in enumerate(((0, 7), (7, 500), (500, 500), (500, len(given)))):
        driver.batch([given.slice(start, stop - start)], number)
    written, truth = Found(once=True), truth_of_events(rules, hashes_of(values))
    for _, consumer, _, event in driver.results:
        written.add(CONTESTANTS[grouping].event(consumer.encode(), event), 10)
    assert not written.wrong(truth)
    rows, expected = {row[1:] for row in driver.results}, set(plain(given))
    if owned:
        assert rows == expected
    else:  # the last event is of a merge of all records of a consumer, of which there are 300
        assert {row for row in rows if row[:2] == ("consumer_200", 300)} <= expected
