"""How many messages each worker got: as the engines show it, and how uneven that is."""

import pytest

from evidence.engines import loads
from unskew.apps.worker.result_messages import make_message


@pytest.mark.parametrize(
    ("of", "skew"),
    [
        # Flink's own cases (DoubleAccumulatorTest), and one of FLIP-418
        ([23, 3, 10], 61),
        ([300, 0, 0], 100),
        ([0, 0, 0], 0),
        ([50, 51, 52], 1),
        ([123], 0),
        ([4, 5, 5, 5, 5], 7),
    ],
)
def test_data_skew_is_flinks(of, skew):
    assert loads.data_skew(of) == pytest.approx(skew, abs=0.5)


def test_loads_are_read_until_they_are_whole(monkeypatch, capsys):
    shown = iter([[], [3, 1], [3, 0, 2]])
    found = loads.whole(lambda: next(shown), 5, 4)
    assert found is not None
    assert found.tolist() == [3, 2, 0, 0]
    monkeypatch.setattr(loads, "_PATIENCE", 0)
    assert loads.whole(lambda: [3, 1], 5, 4) is None
    assert "4 of 5 messages" in capsys.readouterr().out


def test_loads_of_ours_are_the_workers_of_all_windows():
    def record(kind, window, worker, tuples):
        made = make_message(f"{window}/{kind}/{worker}", kind, 0, {"worker": worker}, {"tuples": tuples})
        return made.value

    of = [("WORKER", "w1", "0", 5), ("WORKER", "w1", "1", 2), ("WORKER", "w2", "1", 4), ("HOT_KEY", "w2", "tr", 9)]
    assert loads.of_windows(record(*each) for each in of) == [5, 6]
