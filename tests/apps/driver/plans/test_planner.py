"""The planner of a query over real sockets: waves, attempts that run again, and drivers that follow each other."""

import errno
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from types import SimpleNamespace

import numpy as np
import pytest

from tests.waiting import PATIENCE
from unskew.apps.checkpoint.folders import LocalFolder
from unskew.apps.driver.plans.plan_service import ListenAddress, choose_listen_address
from unskew.apps.driver.plans.planned_routing import add_planner as routed
from unskew.apps.driver.plans.planner import FOLDER, Planner
from unskew.apps.router import planner_protocol
from unskew.apps.router.planner_session import PlannerSession, connect_server
from unskew.apps.router.router import Routing
from unskew.errors import EnvironmentFault, UsageError
from unskew.grouping import create
from unskew.grouping.planned.planned import Planned
from unskew.loopback import LOOPBACK, free_port

WORKERS = 20


def planned(**options) -> Planned:
    return Planned(WORKERS, **options)


def planner(checkpoint=None, **options) -> closing[Planner]:
    return closing(Planner(lambda _: planned(**options), checkpoint, ListenAddress(LOOPBACK)))


def parts_of(batch: int, sources: int, n: int = 4_000) -> list[list[str]]:
    rng = np.random.default_rng(batch)
    keys = [f"k{key}" for key in rng.zipf(1.4, n)]
    return [keys[source::sources] for source in range(sources)]


def follow(asked: PlannerSession, keys: Sequence[str]) -> np.ndarray:
    """What a source does in a task."""
    router = planned()
    if asked.quotas is None:
        router.load(asked.replicas)
        asked.request_quotas(router.count(keys))
    return router.follow(keys, asked.quotas)


def route(of: Planner, batch: int, source: int, keys: Sequence[str], query: str = "a") -> np.ndarray:
    with closing(PlannerSession(of.address, query, batch, source)) as asked:
        return follow(asked, keys)


def read_clock(of: Planner, batch: int) -> int:
    """The tuples of the replicas that a source gets in a batch."""
    with closing(PlannerSession(of.address, "a", batch, 0)) as asked:
        known = planned()
        known.load(asked.replicas)
    return known.clock


def in_waves(of: Planner, batch: int, parts: Sequence[Sequence[str]], slots: int) -> list[np.ndarray]:
    """Each part routed by a source, so many at a time; those of a wave are all there before one counts."""
    routes: dict[int, np.ndarray] = {}
    for first in range(0, len(parts), slots):
        wave = range(first, min(first + slots, len(parts)))
        asked = {source: PlannerSession(of.address, "a", batch, source) for source in wave}
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
                together = keep.route_together(parts)
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


def test_the_next_driver_goes_on_where_the_last_one_died(tmp_path):
    """The waves that are written stand, and the others are planned; later batches know the replicas."""
    parts, following = parts_of(0, 4), parts_of(1, 4)
    with planner(str(tmp_path)) as one:
        before = in_waves(one, 0, parts[:2], 2)
        once_more = [route(one, 0, source, parts[source]) for source in range(2)]
        assert [each.tolist() for each in once_more] == [each.tolist() for each in before]
    with planner(str(tmp_path)) as two:
        again = [route(two, 0, source, part) for source, part in enumerate(parts)]
    assert [each.tolist() for each in again[:2]] == [each.tolist() for each in before]
    loads = np.bincount(np.concatenate(again), minlength=WORKERS)
    assert loads.max() <= np.floor(1.05 * 4_000 / WORKERS)
    with planner(str(tmp_path)) as three:
        third = [route(three, 1, source, part) for source, part in enumerate(following)]
        assert read_clock(three, 2) == 8_000
    assert np.bincount(np.concatenate(third), minlength=WORKERS).max() <= np.floor(1.05 * 4_000 / WORKERS)


@pytest.mark.parametrize(("slots", "waves"), [(1, 8), (3, 3), (8, 1)])
def test_a_batch_s_plan_is_summed_up(slots, waves, tmp_path):
    """As many waves as there were, and the replicas of all of them; the next driver counts those of the last one."""
    with planner(str(tmp_path)) as one:
        places: set[tuple[str, int]] = set()
        for batch in range(3):
            assert one.summary(batch) is None, "no source has counted"
            parts = parts_of(batch, 8)
            routes = in_waves(one, batch, parts, slots)
            summary = one.summary(batch)
            assert summary is not None
            assert (summary.waves, summary.waited) == (waves, 0), "how long they waited is known to the sources"
            now = {pair for part, own in zip(parts, routes, strict=True) for pair in zip(part, own, strict=True)}
            assert summary.split > 0
            assert summary.added <= len(now - places) if batch else summary.added > 0
            places |= now
        assert one.summary(1) is None, "it is over"
        waiting = PlannerSession(one.address, "a", 3, 0)
        assert one.summary(3) is None
        waiting.close()
    with planner(str(tmp_path)) as two, closing(PlannerSession(two.address, "a", 2, 0)):
        assert two.summary(2) == summary


def test_two_drivers_at_once_follow_one_plan(tmp_path):
    parts = parts_of(0, 2)
    with planner(str(tmp_path)) as one, planner(str(tmp_path)) as two:
        ours, theirs = ([route(each, 0, source, part) for source, part in enumerate(parts)] for each in (one, two))
        assert [each.tolist() for each in ours] == [each.tolist() for each in theirs]
        three = (
            PlannerSession(one.address, "a", 1, 0),
            PlannerSession(two.address, "a", 1, 0),
        )  # both before either has planned
        both = [follow(each, parts[0]).tolist() for each in three]
    assert both[0] == both[1]


def test_a_source_that_dies_while_it_counts_is_not_waited_for():
    parts = parts_of(0, 2)
    with planner() as one, ThreadPoolExecutor(1) as pool:
        dying = PlannerSession(one.address, "a", 0, 1)
        other = pool.submit(route, one, 0, 0, parts[0])
        with pytest.raises(TimeoutError):
            other.result(0.2)
        dying.close()
        assert len(other.result(PATIENCE)) == len(parts[0])
        assert len(route(one, 0, 1, parts[1])) == len(parts[1])


def test_an_attempt_that_is_stuck_does_not_hold_up_another_one():
    """As of a machine that is gone, or a process that is stopped: another attempt at the source has counted."""
    parts = parts_of(0, 2)
    with planner() as one, ThreadPoolExecutor(2) as pool:
        stuck = PlannerSession(one.address, "a", 0, 1)
        both = [pool.submit(route, one, 0, source, part) for source, part in enumerate(parts)]
        routes = [each.result(PATIENCE) for each in both]
        assert [len(each) for each in routes] == [len(part) for part in parts]
        assert follow(stuck, parts[1]).tolist() == routes[1].tolist()
        stuck.close()


def test_a_batch_that_is_over_is_planned_no_more():
    with planner() as one:
        route(one, 3, 0, ["a"])
        with pytest.raises(EnvironmentFault, match="batch 2 is over"):
            route(one, 2, 0, ["a"])
        late = PlannerSession(one.address, "a", 3, 1)
        route(one, 4, 0, ["a"])
        with pytest.raises(EnvironmentFault, match="batch 3 is over"):
            follow(late, ["a"])
        assert route(one, 0, 0, ["a"], query="b").tolist(), "another query of the same DataFrame"
        assert route(one, 4, 1, ["a"]).tolist(), "each has its own batches"


def test_only_who_knows_the_secret_is_answered():
    with planner() as one:
        stranger = type(one.address)(one.address.host, one.address.port, b"another")
        with pytest.raises(EnvironmentFault, match=r"can't reach the query's planner at the driver's \S+:\d+ \("):
            PlannerSession(stranger, "a", 0, 0)
        silent = socket.create_connection((one.address.host, one.address.port))
        assert len(route(one, 0, 0, ["a", "b"])) == 2, "who says nothing holds nobody up"
        silent.close()


def test_who_sends_a_byte_at_a_time_has_one_deadline(monkeypatch):
    monkeypatch.setattr(planner_protocol, "_HANDSHAKE", 1)
    with planner() as one, socket.create_connection((one.address.host, one.address.port)) as dripping:
        dripping.settimeout(0.1)
        dripping.sendall(b"\0\0\1")  # 256 bytes are to come
        assert any(_ended(dripping) for _ in range(100)), "it is cut off before all of them have come"


def _ended(dripping: socket.socket) -> bool:
    time.sleep(0.05)
    try:
        dripping.sendall(b"\0")
    except OSError:
        return True
    return False


def test_strangers_use_up_no_descriptors():
    with planner() as one, ExitStack() as stack:
        kept = PlannerSession(one.address, "a", 0, 0)
        for _ in range(150):
            stack.enter_context(socket.create_connection((one.address.host, one.address.port)))
        threading.Event().wait(0.2)
        assert sum(thread.name == "unskew planner's task" for thread in threading.enumerate()) <= 64 + 1
        assert len(route(one, 0, 1, ["a"], query="b")) == 1, "they hold nobody up"
        assert len(follow(kept, ["a"])) == 1, "who has proved itself stays"
        kept.close()


def test_a_planner_that_has_ended_is_told_in_a_line():
    with planner() as one:
        waiting, other = PlannerSession(one.address, "a", 0, 0), PlannerSession(one.address, "a", 0, 1)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(follow, waiting, ["a"])
            threading.Event().wait(0.1)
            one.close()
            with pytest.raises(EnvironmentFault, match="query's planner"):
                asked.result(PATIENCE)
        other.close()
    with pytest.raises(EnvironmentFault, match=r"the setting spark\.driver\.host names an address that it reaches"):
        PlannerSession(one.address, "a", 1, 0)


def test_old_waves_are_removed(tmp_path):
    with planner(str(tmp_path)) as one:
        for batch in range(8):
            in_waves(one, batch, parts_of(batch, 2, 100), 1)
    (folder,) = tmp_path.joinpath(*FOLDER).iterdir()
    names = sorted(path.name for path in folder.iterdir())
    assert names[0].startswith(f"{5:012d}-")
    assert len(names) == 6


def test_waves_of_other_routers_are_none_of_these(tmp_path):
    """W or an option may change while a batch is planned and not committed. Then the batch is planned anew."""
    with planner(str(tmp_path)) as one:
        route(one, 0, 0, ["a"] * 10)
    with planner(str(tmp_path), slack=0.2) as two, closing(PlannerSession(two.address, "a", 0, 0)) as asked:
        assert (asked.quotas, asked.replicas) == (None, planned(slack=0.2).for_sources())
        asked.request_quotas(planned(slack=0.2).count(["a"] * 10))
    with planner(str(tmp_path)) as three, closing(PlannerSession(three.address, "a", 0, 0)) as asked:
        assert asked.quotas is not None, "those of before are still there"


def test_a_batch_of_another_number_of_workers():
    """The first batch after a restart is of the old W."""
    with closing(Planner(lambda batch: Planned(4 if batch < 3 else 6), None, ListenAddress(LOOPBACK))) as one:
        for batch, workers in ((2, 4), (3, 6), (4, 6)):
            with closing(PlannerSession(one.address, "a", batch, 0)) as asked:
                router = Planned(workers)
                router.load(asked.replicas)
                keys = [f"k{i % 50}" for i in range(1_000)]
                loads = np.bincount(router.follow(keys, asked.request_quotas(router.count(keys))), minlength=workers)
                assert loads.max() <= 1.05 * 1_000 / workers
        assert router.clock == 1_000, "the replicas of the batch before"


def test_planners_of_several_names_have_waves_of_their_own(tmp_path):
    checkpoint = str(tmp_path)
    with (
        closing(Planner(lambda _: planned(), checkpoint, ListenAddress(LOOPBACK))) as one,
        closing(Planner(lambda _: planned(), checkpoint, ListenAddress(LOOPBACK), name="2")) as two,
    ):
        for batch in range(6):
            assert len(route(one, batch, 0, ["a"] * 10)) == len(route(two, batch, 0, ["b"] * 10)) == 10


@pytest.mark.parametrize("method", ["create", "names", "read"])
def test_a_store_that_fails_once(tmp_path, monkeypatch, method):
    """Whoever waits is told and asks again; nothing is planned twice, and no replicas are forgotten."""
    parts = parts_of(0, 2, 1_000)
    with planner(str(tmp_path)) as one:
        for batch in range(3):
            in_waves(one, batch, parts, 2)
    whole, failed = getattr(LocalFolder, method), []

    def fails_once(self, *given):
        if "waves" in self._path.parts and not failed:
            failed.append(method)
            raise OSError("not now")
        return whole(self, *given)

    monkeypatch.setattr(LocalFolder, method, fails_once)
    with planner(str(tmp_path)) as two:
        with pytest.raises(EnvironmentFault, match=r"has no plan: .*not now"):
            route(two, 3, 0, parts[0])
        loads = np.bincount(np.concatenate(in_waves(two, 3, parts, 2)), minlength=WORKERS)
        assert loads.max() <= np.ceil(1.05 * 1_000 / WORKERS)
        assert read_clock(two, 4) == 4_000
    assert failed


def test_all_streams_of_a_process_share_a_thread_and_a_port():
    """The plans of a query that has ended are forgotten."""
    active = [SimpleNamespace(id="a")]
    session = SimpleNamespace(
        conf={},
        sparkContext=SimpleNamespace(getConf=lambda: {"spark.master": "local[2]"}),
        streams=SimpleNamespace(active=active),
    )
    stream = SimpleNamespace(isStreaming=True, sparkSession=session)
    addresses = [routed(stream, Routing("PLANNED", WORKERS)).planner]
    before = threading.active_count()
    addresses += [routed(stream, Routing("PLANNED", WORKERS)).planner for _ in range(20)]
    assert len({address.port for address in addresses}) == 1
    assert threading.active_count() <= before
    one, other = (SimpleNamespace(address=address) for address in addresses[:2])
    first = [route(each, 3, 0, ["a"] * 10, query="a").tolist() for each in (one, other)]
    assert first == [route(each, 3, 0, ["a"] * 10, query="a").tolist() for each in (one, other)]
    active[:] = [SimpleNamespace(id="b")]
    route(one, 0, 0, ["a"], query="b")
    with pytest.raises(EnvironmentFault, match="batch 1 is over"):
        route(other, 1, 0, ["a"], query="a")
    route(one, 1, 0, ["a"], query="a")


def test_a_port_that_is_taken():
    """The next driver takes one of the next ports, as with Spark's own ports. Without retries it says so."""
    port = free_port()
    with ExitStack() as stack:
        for _ in range(3):
            made = Planner(lambda _: planned(), None, ListenAddress(LOOPBACK, port=port, retries=16))
            stack.enter_context(closing(made))
            assert made.address.port in range(port, port + 17)
            port = made.address.port  # it is taken now
        with pytest.raises(EnvironmentFault, match=f"can't listen at {LOOPBACK}:{port} .*in use"):
            Planner(lambda _: planned(), None, ListenAddress(LOOPBACK, port=port))


def test_there_is_no_port_after_the_last_one():
    with ExitStack() as stack:
        stack.enter_context(closing(socket.create_server((LOOPBACK, 65_535))))
        with pytest.raises(EnvironmentFault, match=f"can't listen at {LOOPBACK}:65535 .*in use"):
            Planner(lambda _: planned(), None, ListenAddress(LOOPBACK, port=65_535, retries=16))


@pytest.mark.parametrize("port", ["", "0", "7077", "-1", "65536", "any", "7077.0", "1e3"])
def test_what_is_no_port_is_refused(port):
    conf = {"spark.unskew.planner.port": port}
    spark = SimpleNamespace(conf=conf, sparkContext=SimpleNamespace(getConf=lambda: {"spark.master": "local[2]"}))
    if port in {"", "0", "7077"}:
        assert choose_listen_address(spark).port == int(port or 0)
    else:
        with pytest.raises(UsageError, match=f"spark.unskew.planner.port is '{port}'; valid: 1 to 65535, or 0 for any"):
            choose_listen_address(spark)


def test_a_long_answer_holds_up_no_other_connection():
    with planner() as one, one._plans._changed:  # as while a plan is written to a slow store
        for _ in range(2):
            connect_server(one.address).close()


def test_a_connection_that_cannot_be_taken_is_not_the_last_one(monkeypatch):
    """As if too many files were open."""
    with planner() as one:
        real, failures = one._server, [OSError(errno.EMFILE, "Too many open files")]

        class Short:
            def accept(self):
                if failures:
                    raise failures.pop()
                return real.accept()

            def __getattr__(self, name):
                return getattr(real, name)

        monkeypatch.setattr(one, "_server", Short())
        for batch in range(3):
            route(one, batch, 0, ["a"])
        assert not failures
