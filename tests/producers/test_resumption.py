"""What can't be resumed is said, without a broker."""

import pytest

from unskew.errors import UsageError
from unskew.kafka import topics
from unskew.kafka.connection import Connection
from unskew.producers import resumption, terminal
from unskew.producers.datasets.registry import create_dataset
from unskew.producers.pace import Pace
from unskew.producers.partitioning import RoundRobinPlacement
from unskew.producers.readers.rejected_records import RejectLog


@pytest.mark.parametrize("ends", [{0: 9}, {0: 9, 1: 9, 2: 9}, {0: 9, 1: 4}])
def test_a_topic_that_was_made_anew_is_recognized(ends, tmp_path, monkeypatch):
    monkeypatch.setattr(resumption, "await_end_offsets", lambda *_: ends)
    journal = resumption.UploadJournal("topic", create_dataset("COUNTRY_SKEW_R80", records=10), tmp_path)
    placement = RoundRobinPlacement(2)
    journal.begin([5, 5], placement.rule)
    with pytest.raises(UsageError, match="was made anew since this upload began"):
        resumption.begin_upload(Connection("nowhere:1"), "topic", placement, journal, resume=True)


@pytest.mark.parametrize(
    ("ends", "there"),
    [
        ({0: 10, 1: 10}, True),
        ({0: 30, 1: 12, 2: 0}, True),  # others have written to it, and it has got a partition
        ({0: 0, 1: 0}, False),
        ({0: 10, 1: 9}, False),
        ({0: 20}, False),
    ],
)
def test_nothing_to_resume_is_said_of_the_topic_that_has_it_all(ends, there, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path))
    monkeypatch.setattr(topics, "end_offsets", lambda *_, **__: ends)
    dataset = create_dataset("COUNTRY_SKEW_R80", records=10)
    journal = resumption.UploadJournal("topic", dataset)
    journal.begin([5, 5], "rule")
    journal.finish(10)

    def resumed():
        connection = Connection("nowhere:1")
        return terminal.upload_dataset(
            connection, "topic", dataset, RejectLog(), pace=Pace(), placement=None, resume=True
        )

    if there:
        assert resumed()
        assert "nothing to resume" in capsys.readouterr().out
        return
    with pytest.raises(UsageError, match="topic topic was made anew since this upload ended"):
        resumed()
