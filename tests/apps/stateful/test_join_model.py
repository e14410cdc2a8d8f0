"""The model of the join of two streams: no order of crash and replay breaks it, and it finds planted mistakes."""

import inspect
import types

import pytest

from tests.apps.stateful import join_model
from tests.apps.stateful.join_model import Drawn, play_many
from unskew.apps.checkpoint import folders
from unskew.apps.router import join_router
from unskew.apps.worker.joining import join_state, outer_merger, row_table, worker
from unskew.apps.worker.stateful import store
from unskew.grouping.split_join import controller, plan


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    """Buckets of a few rows, so that they split and merge."""
    monkeypatch.setattr(store, "KEYS", 4)
    monkeypatch.setattr(store, "_SHRINK", 2)
    monkeypatch.setattr(folders, "PATIENCE", 0.0)


def test_every_pair_is_found_once_whatever_dies(seed):
    grown, left = Drawn.grown, Drawn.left
    assert play_many(seed, 16) > 1_000
    assert Drawn.grown - grown > 50, "keys that get no places would prove nothing"
    assert Drawn.left - left > 10


_SEND = "    copied = _send_copies(config, worker, plan, batch, table, join) if new else (0, 0)\n"

#: A mistake: the module, what stands there, and what would be wrong.
MISTAKES = {
    "copies find no partners": (
        worker,
        "            yield from join.add(side, rows)\n",
        "            join.tables[side].add(rows, hash_keys_of(rows))\n",
    ),
    "copies are lost": (worker, "            yield from join.add(side, rows)\n", "            pass\n"),
    "copies of the batch's end": (worker, (_SEND, "    kept = join.rows"), ("", _SEND + "    kept = join.rows")),
    "copies are taken twice": (worker, "taken=progress.released", "taken=progress.taken"),
    "a worker keeps the rows of a key that left": (worker, "        join.leave(", "        len("),
    "rows leave by the other side's bound": (
        join_state,
        "table.drop_before(watermark_us - self._config.reach(side)[1])",
        "table.drop_before(watermark_us - self._config.reach(side)[0])",
    ),
    "late rows of one side are taken": (worker, "rows.filter(pa.array(~late)) if late.any()", "rows if side"),
    "a place that has rows says that it has none": (
        join_state,
        "needed = self.tables[split].has_keys(hashes)",
        "needed = False",
    ),
    "a place leaves where alone a copy has a partner": (
        join_state,
        "if not needed and self._config.outer[1 - split]:",
        "if False:",
    ),
    "each copy is published": (join_state, "copied = (of >= 0) &", "copied = (of < -1) &"),
    "partners aren't noted": (join_state, "kept.mark(piece, found)", "pass"),
    "copies that are over are taken in": (
        worker,
        "live = join.select_live(side, found, 1000 * progress.closed_ms)",
        "live = found",
    ),
    "rows are copied to the first place alone": (
        plan,
        "        many = np.ones(",
        "        stop = np.minimum(stop, first + 1)\n        many = np.ones(",
    ),
    "rows are divided anew at a retry": (
        plan,
        "        mixed = (",
        "        batch = np.random.default_rng().integers(1 << 30).item()\n        mixed = (",
    ),
    "places leave at once": (
        controller,
        "    if worker in target or not since or",
        "    return worker not in target\n    if",
    ),
    "the plan before isn't remembered": (controller, "grown=table.grow", "grown=Copies()"),
    "a slice leaves too early": (
        row_table,
        "for start in [start for start in self._directory.indexes if start + self._slice_us <= time_us]",
        "for start in [start for start in self._directory.indexes if start <= time_us]",
    ),
    "a slice isn't searched": (row_table, "start + self._slice_us <= first_us", "start <= first_us"),
}


def plant(monkeypatch, module, old, new):
    """Replace text of a module, in a copy that stands in for it."""
    source = inspect.getsource(module)
    for before, after in zip(*((each,) if isinstance(each, str) else each for each in (old, new)), strict=True):
        assert source.count(before) == 1, f"{before!r} stands there no more"
        source = source.replace(before, after)
    wrong = types.ModuleType(module.__name__)
    exec(compile(source, module.__file__, "exec"), wrong.__dict__)
    for where in (join_model, join_router, worker, join_state, outer_merger, plan, controller):
        for name, value in list(vars(where).items()):
            if value is module:
                monkeypatch.setattr(where, name, wrong)
            elif where is not module and getattr(value, "__module__", "") == module.__name__ and hasattr(wrong, name):
                monkeypatch.setattr(where, name, getattr(wrong, name))
    if module is controller:
        for name in ("_write", "_gather"):
            monkeypatch.setattr(controller.SplitJoinLoop, name, getattr(wrong.SplitJoinLoop, name))


@pytest.mark.ci
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake, monkeypatch):
    plant(monkeypatch, *MISTAKES[mistake])
    # An assertion of the model's or a fault of the join's: not a name that a change of this test has missed.
    with pytest.raises(Exception, check=lambda error: not isinstance(error, (AttributeError, NameError))):  # noqa: B017
        play_many(7, 60)


@pytest.mark.ci
@pytest.mark.parametrize("module", [worker, join_state, plan, controller, row_table])
def test_a_copy_without_a_mistake_is_right(module, monkeypatch):
    plant(monkeypatch, module, (), ())
    assert play_many(7, 2)
