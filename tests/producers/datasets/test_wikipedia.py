"""The Wikipedia generators have the published statistics."""

import numpy as np
import pyarrow.compute as pc
import pytest

from tests.producers.datasets.counting import counted, slope
from unskew.producers.datasets import wikipedia as clicks
from unskew.producers.datasets.mock_values import make_titles
from unskew.producers.datasets.registry import create_dataset
from unskew.producers.datasets.wikipedia import SHARES, load_language_shares, load_languages
from unskew.producers.key_counts import KeyCounts


@pytest.fixture(scope="module")
def pageviews():
    return counted(create_dataset("WIKIPEDIA_PAGEVIEWS", scale=0.1, seed=1))


@pytest.fixture(scope="module")
def by_language():
    return counted(create_dataset("WIKIPEDIA_PAGEVIEWS_BY_LANG", scale=0.2, seed=1))


@pytest.fixture(scope="module")
def clickstream():
    """Types and n of 10 % of the published records, and the counts of the destinations."""
    counts, kinds, n = KeyCounts(), [], []
    for block in create_dataset("WIKIPEDIA_CLICKSTREAM", scale=0.1, seed=1).blocks():
        counts.add(block.keys, block.counts)
        n.append(block.counts)
        text = block.messages.to_numpy(zero_copy_only=False)
        kinds += [message[message.rindex(b'"type":"') + 8 :].partition(b'"')[0].decode() for message in text]
    return np.array(kinds), np.concatenate(n), counts


def drawn_in_full(dataset):
    """The codes of all the records' titles at the published size, and how many titles these are.

    Drawn by the dataset's own law at once: to write 22 million messages about them would prove nothing more.
    """
    codes = dataset._stream.draw(np.random.default_rng(2), 0, dataset.records)
    return codes, pc.count_distinct(make_titles(np.flatnonzero(np.bincount(codes)), "Main_Page")).as_py()


def test_the_rest_follows_zipfs_law(pageviews):
    frequencies = sorted(pageviews.tuples().values(), reverse=True)[1:]
    assert slope(frequencies, 1, 10_000) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("scale", [0.001, 0.02, 0.1])
def test_p1_stays_at_every_scale(scale, pageviews):
    counts = pageviews if scale == 0.1 else counted(create_dataset("WIKIPEDIA_PAGEVIEWS", scale=scale, seed=2))
    published = create_dataset("WIKIPEDIA_PAGEVIEWS", scale=scale).published
    assert counts.total == published.records == 22_000_000 * scale
    assert counts.top(1)[0][0] == "Main_Page"
    assert counts.top(1)[0][1] / counts.total == pytest.approx(0.0932, abs=5 * (0.0932 / counts.total) ** 0.5)
    assert published.keys == 2_900_000 * scale == pytest.approx(counts.distinct, rel=0.05 if scale < 0.1 else 0.02)


@pytest.mark.ci
@pytest.mark.slow
def test_all_of_it_reaches_all_pages():
    codes, distinct = drawn_in_full(create_dataset("WIKIPEDIA_PAGEVIEWS"))
    assert (codes == 0).mean() == pytest.approx(0.0932, abs=0.0004)
    assert distinct == pytest.approx(2_900_000, rel=0.02)


def test_evenings_are_busier_than_mornings():
    times = np.concatenate([block.times for block in create_dataset("WIKIPEDIA_PAGEVIEWS", scale=0.01).blocks()])
    hours = np.bincount(times // 3_600_000 % 24, minlength=24)
    assert hours.argmax() in (17, 18)
    assert hours.argmin() in (5, 6)
    assert hours.max() / hours.mean() == pytest.approx(1.4, abs=0.05)
    assert (times.max() - times.min()) == pytest.approx(86_400_000, rel=0.01)


def test_the_languages_have_their_published_shares(by_language):
    assert by_language.top(1)[0][0] == "en"
    for language, share in SHARES.items():
        assert by_language.tuples()[language] / by_language.total == pytest.approx(share, abs=0.002)


def test_views_are_shared_like_records(by_language):
    sums = by_language.sums()
    assert sums["en"] / sum(sums.values()) == pytest.approx(SHARES["en"], abs=0.02)


def test_no_other_language_is_before_french():
    assert len(set(load_languages())) == len(load_languages()) == len(load_language_shares())
    assert load_language_shares().sum() == pytest.approx(1)
    assert load_language_shares()[len(SHARES) :].max() < SHARES["fr"]


def test_some_pages_are_seen_on_the_mobile_site():
    block = next(create_dataset("WIKIPEDIA_PAGEVIEWS_BY_LANG", records=5000).blocks())
    mobile = sum(b'.m","page"' in message for message in block.messages.to_pylist())
    assert mobile / 5000 == pytest.approx(0.5, abs=0.04)


def test_types_have_their_published_shares(clickstream):
    kinds, _, _ = clickstream
    for kind, share in (("link", 0.60), ("external", 0.37), ("other", 0.03)):
        assert (kinds == kind).mean() == pytest.approx(share, abs=0.003)


@pytest.mark.parametrize(("kind", "mean"), [("link", 1.2e9 / 15.6e6), ("external", 5.5e9 / 9.6e6), ("other", 59.5)])
def test_the_mean_of_n_is_the_published_one(kind, mean):
    # A mean over draws says little when the tail is that heavy: this is the law's own, over its quantiles.
    quantiles = 1 - np.geomspace(1e-12, 1, 2_000_001)[::-1]
    kinds = np.full(len(quantiles), list(clicks.KINDS).index(kind), np.int32)
    n = clicks._draw_clicks(quantiles, kinds).astype(float)
    assert np.trapezoid(n, quantiles) == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize(("kind", "exponent"), [("link", 1.104), ("external", 0.868), ("other", 1.174)])
def test_n_has_a_heavy_tail_from_ten_on(clickstream, kind, exponent):
    kinds, n, _ = clickstream
    n = np.sort(n[kinds == kind])[::-1]
    assert n.min() == 10
    # Hill's estimate over the largest 2 %
    k = len(n) // 50
    assert k / np.log(n[:k] / n[k]).sum() == pytest.approx(exponent, rel=0.1)


def test_so_many_articles_are_reached(clickstream):
    _, _, counts = clickstream
    assert counts.distinct == pytest.approx(440_000, rel=0.03)


@pytest.mark.ci
@pytest.mark.slow
def test_all_of_it_reaches_all_articles():
    _, distinct = drawn_in_full(create_dataset("WIKIPEDIA_CLICKSTREAM"))
    assert distinct == pytest.approx(4_400_000, rel=0.04)


def test_visits_from_outside_name_the_outside():
    rows = {"link": set(), "external": set(), "other": set()}
    block = next(create_dataset("WIKIPEDIA_CLICKSTREAM", records=20_000).blocks())
    for message in block.messages.to_pylist():
        prev, kind = (message.decode().split('"')[at] for at in (3, 11))
        rows[kind].add(prev)
    assert rows["external"] == set(clicks.OUTSIDE)
    assert not (rows["link"] | rows["other"]) & set(clicks.OUTSIDE)
