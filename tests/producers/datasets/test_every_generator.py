"""What holds for every dataset in the registry."""

from functools import lru_cache, reduce
from operator import getitem

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.producers.datasets.counting import counted
from unskew.producers.datasets.interface import GeneratedDataset
from unskew.producers.datasets.registry import KINDS, create_dataset, get_parameters
from unskew.producers.messages import WIKI_URL, hashtag_keys

CHUNK = GeneratedDataset.chunk
# One of each kind is enough where all ratios are the same code.
NAMES = [*KINDS, "COUNTRY_HALF_SKEW_R80"]
ALL = pytest.mark.parametrize("name", NAMES)


def small(name, **options):
    """The dataset with tables that are quick to build."""
    if "scale" in get_parameters(name):
        options = {"scale": 0.01, **options}
    return create_dataset(name, **options)


def flat(blocks):
    """Messages, keys with their owners' positions, counts and times, of a whole stream."""
    messages, keys, owners, counts, times, position = [], [], [], [], [], 0
    for block in blocks:
        assert len(block) > 0
        messages += block.messages.to_pylist()
        keys += block.keys.to_pylist()
        own = np.arange(len(block)) if block.owners is None else block.owners
        assert len(own) == len(block.keys)
        owners += (own + position).tolist()
        counts += [1] * len(own) if block.counts is None else block.counts.tolist()
        times += [] if block.times is None else block.times.tolist()
        position += len(block)
    return messages, keys, owners, counts, times


def hashtags(document):
    tags, kept = hashtag_keys(pa.array(document["hashtags"], pa.string()))
    return [(tag, 1) for tag, has in zip(tags.to_pylist(), kept, strict=True) if has]


#: Source type → the keys and counts that its definition finds in a parsed message, where they aren't a field as it is.
SPLIT = {
    "TWITTER_ELECTION": hashtags,
    "WIKIPEDIA_PAGEVIEWS": lambda document: [(document["page"].removeprefix(WIKI_URL), 1)],
    "WIKIPEDIA_PAGEVIEWS_BY_LANG": lambda document: [(document["lang"].split(".")[0], document["n"])],
    "NEXMARK": lambda document: [(str(document["bid"]["auction"]), 1)],
}


def split(name, document):
    if name in SPLIT:
        return SPLIT[name](document)
    key = create_dataset(name).key
    return [(reduce(getitem, key.path, document), document[key.count] if key.count else 1)]


@ALL
def test_messages_are_compact_json_and_the_keys_are_those_in_them(name):
    messages, keys, owners, counts, _ = flat(small(name, records=3000, seed=1).blocks())
    expected = []
    for position, message in enumerate(messages):
        document = orjson.loads(message)
        assert orjson.dumps(document) == message
        expected += [(position, key, count) for key, count in split(name, document)]
    assert list(zip(owners, keys, counts, strict=True)) == expected


@lru_cache(1)
def long_enough(name):
    """A dataset of more than a chunk, and all of it."""
    dataset = small(name, records=CHUNK + 3100, seed=3)
    return dataset, flat(dataset.blocks())


@ALL
@settings(max_examples=3)
@given(start=st.integers(0, CHUNK + 100), length=st.integers(1, 3000))
def test_reading_may_begin_anywhere(name, start, length):
    """And times never fall by more than a second."""
    dataset, whole = long_enough(name)
    assert not whole[4] or np.diff(whole[4]).min() >= -1000
    position, part = start, []
    for block in dataset.blocks(start):
        part.append(block)
        position += len(block)
        if position - start >= length:
            break
    messages, keys, owners, counts, times = flat(part)
    assert messages == whole[0][start:position]
    first, last = np.searchsorted(whole[2], (start, position))
    assert keys == whole[1][first:last]
    assert owners == [owner - start for owner in whole[2][first:last]]
    assert counts == whole[3][first:last]
    assert times == whole[4][start:position]


@ALL
def test_a_seed_decides_everything(name):
    once, again, other = (flat(small(name, records=2000, seed=seed).blocks())[0] for seed in (7, 7, 8))
    assert once == again != other


def another(option, default):
    """A valid value of a parameter that isn't its default."""
    if option == "events":
        return "all"
    return default * 0.9 if isinstance(default, float) else default - 1


@ALL
def test_every_parameter_makes_it_another_dataset(name):
    """Or a load would be resumed with records of another."""
    changed = [{"records": 11}, {"seed": 1}]
    changed += [{option: another(option, default)} for option, default in get_parameters(name).items()]
    identities = [
        orjson.dumps(create_dataset(name, **{"records": 10, **options}).identity()) for options in [{}, *changed]
    ]
    assert len(set(identities)) == len(identities)


@ALL
def test_it_has_a_name_a_line_and_its_records(name):
    dataset = small(name, records=7)
    assert dataset.name == name
    assert dataset.summary
    assert "\n" not in dataset.summary
    assert sum(len(block) for block in dataset.blocks()) == dataset.records == 7
    assert list(small(name, records=0).blocks()) == []


@pytest.mark.parametrize(
    "name", [name for name in NAMES if create_dataset(name).published and "scale" not in get_parameters(name)]
)
def test_the_published_statistics_are_met(name):
    dataset = create_dataset(name, seed=2)
    counts, published = counted(dataset), dataset.published
    assert dataset.records == published.records
    assert counts.distinct == pytest.approx(published.keys, rel=0.05)
    assert counts.top(1)[0][1] / counts.total == pytest.approx(
        published.p1, abs=5 * (published.p1 / counts.total) ** 0.5
    )


OUT_OF_RANGE = [
    *(("ZIPF", "keys", 0), ("ZIPF", "keys", 1 << 30), ("ZIPF", "z", float("nan"))),
    *(("DRIFTING_ZIPF", "every", 0), ("DRIFTING_ZIPF", "step", -1), ("POSG_ZIPF", "alpha", float("inf"))),
    *(("POSG_UNIFORM", "items", 0), ("NEXMARK", "event_rate", 0), ("NEXMARK", "hot_auction_ratio", 0)),
    *(("WIKIPEDIA_PAGEVIEWS", "scale", bad) for bad in (-1, 0, 1e9)),
    *(("COUNTRY_SKEW_R0", option, bad) for option in ("records", "seed") for bad in (-1, 1.5, True)),
    ("NEXMARK", "events", "bid"),
]
VALID = {"scale": "", "events": "'bid'; valid: bids, all"} | dict.fromkeys(("records", "seed"), ".*; valid: an integer")


def test_a_parameter_out_of_range_is_named_before_anything_is_sent(subtests):
    for name, option, value in OUT_OF_RANGE:
        valid = VALID.get(option, ".*; valid: [01] to ")
        with subtests.test(f"{name}: {option}={value}"), pytest.raises(ValueError, match=f"{option} is {valid}"):
            create_dataset(name, **{option: value})


def test_an_unknown_dataset_lists_those_there_are():
    says = r"unknown dataset 'COUNTRY_SKEW_R85'; did you mean .* valid: COUNTRY_SKEW_R0, .*HALF"
    with pytest.raises(ValueError, match=says):
        create_dataset("COUNTRY_SKEW_R85")
