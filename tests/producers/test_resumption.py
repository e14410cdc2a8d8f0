"""What can't be resumed is said, without a broker."""

import pytest

from unskew.deploy.kafka.connection import Connection
from unskew.errors import UsageError
from unskew.producers import resumption
from unskew.producers.partitioning import Spread
from unskew.producers.registry import create


@pytest.mark.parametrize("ends", [{0: 9}, {0: 9, 1: 9, 2: 9}, {0: 9, 1: 4}])
def test_a_topic_that_was_made_anew_is_recognized(ends, tmp_path, monkeypatch):
    monkeypatch.setattr(resumption, "settled_offsets", lambda *_: ends)
    journal = resumption.Journal("topic", create("COUNTRY_SKEW_R80", records=10), tmp_path)
    placement = Spread(2)
    journal.begin([5, 5], placement.rule)
    with pytest.raises(UsageError, match="was made anew since this upload began"):
        resumption.begin(Connection("nowhere:1"), "topic", placement, journal, resume=True)
