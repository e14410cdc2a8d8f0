"""The Twitter generators: tops that change from week to week, keys that are hot for an hour."""

from itertools import pairwise

import numpy as np
import pytest

from unskew.producers.datasets.registry import create_dataset
from unskew.producers.datasets.twitter import P1, weekly_shares
from unskew.producers.key_counts import KeyCounts
from unskew.producers.messages import hashtag_keys

WEEK = 7 * 86_400_000


@pytest.fixture(scope="module", params=[0, 1])
def weeks(request):
    """Counts of the whole month, and of each week."""
    dataset, month, weeks = create_dataset("TWITTER_TICKER", seed=request.param), KeyCounts(), {}
    for block in dataset.blocks():
        month.add(block.keys)
        week = (block.times - 1_383_264_000_000) // WEEK
        for at in np.unique(week):
            weeks.setdefault(int(at), KeyCounts()).add(block.keys.filter(week == at))
    return month, weeks


@pytest.fixture(scope="module")
def day():
    """Seconds of the day and first hashtags of all tweets."""
    dataset, seconds, tags = create_dataset("TWITTER_ELECTION", scale=0.5, seed=0), [], []
    for block in dataset.blocks():
        first = np.searchsorted(block.owners, np.arange(len(block)))
        seconds.append(block.times // 1000 - 1_478_563_200)
        tags += block.keys.take(np.minimum(first, len(block.keys) - 1)).to_pylist()
    return dataset, np.concatenate(seconds), np.array(tags, dtype=object)


def test_the_paper_s_table(weeks):
    month, _ = weeks
    assert month.total == 690_000
    assert month.distinct == pytest.approx(2900, rel=0.01)
    assert month.top(1)[0][1] / month.total == pytest.approx(P1, abs=0.001)


def test_the_top_changes_from_week_to_week(weeks):
    month, by_week = weeks
    assert sorted(by_week) == [0, 1, 2, 3, 4]
    tops = [[key for key, _ in by_week[at].top(5)] for at in range(5)]
    assert len({top[0] for top in tops}) >= 3
    for one, other in pairwise(tops):
        assert len(set(one) & set(other)) <= 4
    # A week's favourite is several times its share of the month.
    share = {key: tuples / month.total for key, tuples in month.top(3000)}
    gains = [by_week[at].top(5)[0][1] / by_week[at].total / share[tops[at][0]] for at in range(4)]
    assert max(gains) > 1.5


def test_the_month_s_largest_share_is_exactly_p1():
    for tickers, seed in ((2900, 0), (290, 4), (300, 9)):
        shares = weekly_shares(tickers, seed)
        assert shares.shape == (5, tickers)
        assert (np.array([7, 7, 7, 7, 2]) / 30 @ shares).max() == pytest.approx(P1, abs=1e-6)


def test_an_event_makes_its_hashtag_hot_within_minutes_and_lets_it_cool(day):
    dataset, seconds, tags = day
    events, names = dataset.events, hashtag_keys(dataset.names)[0].to_pylist()
    seen = 0
    for at in np.flatnonzero(events.peak > 0.15):
        begin, key = events.begin[at], names[events.about[at]]
        same = np.flatnonzero((events.about == events.about[at]) & (np.arange(40) != at))
        if begin < 1200 or begin > 86_400 - 8 * 2400 or len(same) or key == "ElectionDay":
            continue

        def share(start, stop, begin=begin, key=key):
            within = (seconds >= begin + start) & (seconds < begin + stop)
            return (tags[within] == key).mean()

        before, top = share(-900, 0), share(events.rise[at], events.rise[at] + 120)
        later = share(events.rise[at] + 3 * events.half_life[at], events.rise[at] + 3.5 * events.half_life[at])
        assert top > 20 * before
        assert top > 0.05
        assert later < top / 4
        seen += 1
    assert seen >= 10


def test_a_tweet_has_one_to_three_hashtags_and_some_give_no_key(day):
    block = next(create_dataset("TWITTER_ELECTION", records=60_000).blocks())
    keys = np.bincount(block.owners, minlength=len(block))
    assert set(np.unique(keys)) == {0, 1, 2, 3}
    assert (keys == 0).mean() < 0.01


def test_the_hottest_key_changes_during_the_day(day):
    _, seconds, tags = day
    tops = set()
    for start in range(0, 86_400, 600):
        window = tags[(seconds >= start) & (seconds < start + 600)]
        names, counts = np.unique(window[window != "ElectionDay"].astype(str), return_counts=True)
        tops.add(names[counts.argmax()])
    assert len(tops) >= 15
