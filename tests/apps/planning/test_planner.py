"""The planner of a query over real sockets: waves, attempts that run again, and drivers that follow each other."""

import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.waiting import PATIENCE
from unskew.apps.planning.asking import Asking
from unskew.apps.planning.planner import FOLDER, Planner
from unskew.deploy.servers.loopback import LOOPBACK
from unskew.errors import EnvironmentFault
from unskew.grouping import create, measures
from unskew.grouping.planned.planned import Planned

WORKERS = 20


def planned(**options) -> Planned:
    return Planned(WORKERS, **options)


def planner(checkpoint=None, **options) -> Planner:
    return Planner(planned(**options), checkpoint, LOOPBACK)


def parts_of(batch: int, sources: int, n: int = 4_000) -> list[list[str]]:
    rng = np.random.default_rng(batch)
    keys = [f"k{key}" for key in rng.zipf(1.4, n)]
    return [keys[source::sources] for source in range(sources)]


def follow(asked: Asking, keys: Sequence[str]) -> np.ndarray:
    """What a source does in a task."""
    router = planned()
    if asked.quotas is None:
        router.load(asked.replicas)
        asked.divided(router.count(keys))
    return router.follow(keys, asked.quotas)


def route(of: Planner, batch: int, source: int, keys: Sequence[str], run: str = "a") -> np.ndarray:
    with Asking(of.address, run, batch, source) as asked:
        return follow(asked, keys)


def in_waves(of: Planner, batch: int, parts: Sequence[Sequence[str]], slots: int) -> list[np.ndarray]:
    """Each part routed by a source, so many at a time; those of a wave are all there before one counts."""
    routes: dict[int, np.ndarray] = {}
    for first in range(0, len(parts), slots):
        wave = range(first, min(first + slots, len(parts)))
        asked = {source: Asking(of.address, "a", batch, source) for source in wave}
        with ThreadPoolExecutor(slots) as pool:
            done = {source: pool.submit(follow, asked[source], parts[source]) for source in wave}
            routes |= {source: each.result(PATIENCE) for source, each in done.items()}
        for each in asked.values():
            each.close()
    return [routes[source] for source in range(len(parts))]


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_no_worker_gets_more_than_its_cap_of_a_batch(slots):
    keep = planned()
    with planner() as one:
        for batch in range(5):
            parts = parts_of(batch, 8)
            loads = np.bincount(np.concatenate(in_waves(one, batch, parts, slots)), minlength=WORKERS)
            assert loads.sum() == 4_000
            assert loads.max() <= np.floor(1.05 * 4_000 / WORKERS)
            if slots == 8:
                together = keep.together(parts)
                assert np.bincount(np.concatenate(together), minlength=WORKERS).tolist() == loads.tolist()


def test_sources_that_share_a_plan_split_few_keys():
    """As one source does; sources that know nothing of each other split each key at each of them."""
    alone = [planned(), *(create("PLANNED", WORKERS) for _ in range(7))]
    places: dict[str, set[tuple[str, int]]] = {"waves": set(), "alone": set()}
    with planner() as one:
        for batch in range(5):
            parts = parts_of(batch, 8)
            for name, routes in {
                "waves": in_waves(one, batch, parts, 4),
                "alone": [router.route(part) for router, part in zip(alone, parts, strict=True)],
            }.items():
                keys, workers = [key for part in parts for key in part], np.concatenate(routes).tolist()
                places[name] |= set(zip(keys, workers, strict=True))
    keys = len({key for key, _ in places["waves"]})
    assert len(places["waves"]) / keys < 1.15
    assert len(places["waves"]) < len(places["alone"])


def test_who_asks_again_gets_what_was_answered(tmp_path):
    parts = parts_of(0, 4)
    with planner(str(tmp_path)) as one:
        routes = in_waves(one, 0, parts, 2)
        assert [route(one, 0, source, part).tolist() for source, part in enumerate(parts)] == [
            each.tolist() for each in routes
        ]


def test_the_next_driver_goes_on_where_the_last_one_died(tmp_path):
    """The waves that are written stand, and the others are planned; later batches know the replicas."""
    parts, following = parts_of(0, 4), parts_of(1, 4)
    with planner(str(tmp_path)) as one:
        before = in_waves(one, 0, parts[:2], 2)
    with planner(str(tmp_path)) as two:
        again = [route(two, 0, source, part, "b") for source, part in enumerate(parts)]
    assert [each.tolist() for each in again[:2]] == [each.tolist() for each in before]
    loads = np.bincount(np.concatenate(again), minlength=WORKERS)
    assert loads.max() <= np.floor(1.05 * 4_000 / WORKERS)
    with planner(str(tmp_path)) as three:
        third = [route(three, 1, source, part, "c") for source, part in enumerate(following)]
    with planner() as never:
        unbroken = [route(never, 0, source, part) for source, part in enumerate(parts)]
        assert never.address.port
        expected = [route(never, 1, source, part) for source, part in enumerate(following)]
    assert np.bincount(np.concatenate(third), minlength=WORKERS).max() <= np.floor(1.05 * 4_000 / WORKERS)
    assert len(unbroken) == len(expected) == 4
    known = planned()
    known.load(three._router.save())
    assert known.clock == 8_000


def test_two_drivers_at_once_follow_one_plan(tmp_path):
    parts = parts_of(0, 2)
    with planner(str(tmp_path)) as one, planner(str(tmp_path)) as two:
        ours, theirs = (
            [route(each, 0, source, part) for source, part in enumerate(parts)]
            for each in (one, two)
        )  # fmt: skip
        assert [each.tolist() for each in ours] == [each.tolist() for each in theirs]
        three = Asking(one.address, "a", 1, 0), Asking(two.address, "a", 1, 0)  # both before either has planned
        both = [follow(each, parts[0]).tolist() for each in three]
    assert both[0] == both[1]


def test_a_source_that_dies_while_it_counts_is_not_waited_for():
    parts = parts_of(0, 2)
    with planner() as one, ThreadPoolExecutor(1) as pool:
        dying = Asking(one.address, "a", 0, 1)
        other = pool.submit(route, one, 0, 0, parts[0])
        with pytest.raises(TimeoutError):
            other.result(0.2)
        dying.close()
        assert len(other.result(PATIENCE)) == len(parts[0])
        assert len(route(one, 0, 1, parts[1])) == len(parts[1])


def test_two_attempts_of_a_source_side_by_side():
    parts = parts_of(0, 1)
    with planner() as one:
        attempts = [Asking(one.address, "a", 0, 0) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            routes = [each.tolist() for each in pool.map(lambda asked: follow(asked, parts[0]), attempts)]
    assert routes[0] == routes[1]


def test_a_batch_that_is_over_is_planned_no_more():
    with planner() as one:
        route(one, 3, 0, ["a"])
        with pytest.raises(EnvironmentFault, match="batch 2 is over"):
            route(one, 2, 0, ["a"])
        late = Asking(one.address, "a", 3, 1)
        route(one, 4, 0, ["a"])
        with pytest.raises(EnvironmentFault, match="batch 3 is over"):
            follow(late, ["a"])
        assert route(one, 0, 0, ["a"], run="b").tolist(), "another run of the query may begin anew"
        with pytest.raises(EnvironmentFault, match="batch 5 is over"):
            route(one, 5, 0, ["a"], run="a")


def test_only_who_knows_the_secret_is_answered():
    with planner() as one:
        stranger = type(one.address)(one.address.host, one.address.port, b"another")
        with pytest.raises(EnvironmentFault, match=r"can't reach the planner of PLANNED at the driver's \S+:\d+ \("):
            Asking(stranger, "a", 0, 0)
        silent = socket.create_connection((one.address.host, one.address.port))
        assert len(route(one, 0, 0, ["a", "b"])) == 2, "who says nothing holds nobody up"
        silent.close()


def test_a_planner_that_has_ended_is_told_in_a_line():
    with planner() as one:
        waiting, other = Asking(one.address, "a", 0, 0), Asking(one.address, "a", 0, 1)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(follow, waiting, ["a"])
            threading.Event().wait(0.1)
            one.close()
            with pytest.raises(EnvironmentFault, match="planner of PLANNED"):
                asked.result(PATIENCE)
        other.close()
    with pytest.raises(EnvironmentFault, match=r"the setting spark\.driver\.host names an address that it reaches"):
        Asking(one.address, "a", 1, 0)


def test_old_waves_are_removed(tmp_path):
    with planner(str(tmp_path)) as one:
        for batch in range(8):
            in_waves(one, batch, parts_of(batch, 2, 100), 1)
    names = sorted(path.name for path in tmp_path.joinpath(*FOLDER).iterdir())
    assert names[0].startswith(f"{5:012d}-")
    assert len(names) == 6


def test_replicas_of_another_configuration_are_a_cold_start(tmp_path, caplog):
    with planner(str(tmp_path)) as one:
        route(one, 0, 0, ["a"] * 10)
    with planner(str(tmp_path), slack=0.2) as two, Asking(two.address, "b", 1, 0) as asked:
        assert asked.replicas == planned(slack=0.2).save()
    assert "can't read its replicas for batch 1" in caplog.text


def test_a_stream_s_balance_in_every_batch_of_many_sources():
    """R0 of the issue, smaller: 16 sources, one replica for nearly every key."""
    with planner() as one:
        for batch in range(5):
            rng = np.random.default_rng(batch)
            keys = [f"country {k}" for k in rng.integers(0, 200, 16_000)]
            parts = [keys[source::16] for source in range(16)]
            routes = in_waves(one, batch, parts, 4)
            assert measures.straggling(np.bincount(np.concatenate(routes), minlength=WORKERS)) <= 1.05 + 1e-9
