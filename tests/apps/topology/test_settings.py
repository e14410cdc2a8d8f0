import numpy as np
import pytest

from tests.apps.local_settings import settings
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.cli.option_groups import GroupingOptions
from unskew.apps.driver.dataflow import Dataflow
from unskew.errors import UsageError
from unskew.kafka.topics import COMMITS_TOPIC


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mode", "CLOUD", "'CLOUD'; valid: LOCAL, CLUSTER"),
        ("source_type", "COUNTRIES", "'COUNTRIES'; "),
        ("grouping", "MODULO", "'MODULO'; valid: SHUFFLE, KEY"),
        ("topic", "my topic", "'my topic'"),
        ("sources", 0, "sources is 0"),
        ("workers", -3, "workers is -3"),
        ("speed", "fast", "'fast'; valid: x0"),
        ("window", 0, "window is 0"),
        ("window", 0.0333, "window is 0.0333; valid: whole milliseconds"),
        ("lateness", -1, "lateness is -1"),
        (
            "starting_offsets",
            "earlist",
            "starting_offsets is 'earlist'; did you mean earliest? valid: earliest, latest",
        ),
        ("max_tuples", 0, "max_tuples is 0"),
        ("time", "clock", "'clock'; valid: batch, event"),
        ("options", {"d": 2}, "KEY has no parameter 'd'"),
        ("mode", "CLUSTER", "needs --master"),
        (
            "grouping",
            "FULL_KNOWLEDGE",
            "FULL_KNOWLEDGE needs each tuple's cost before it is executed; valid: with costs",
        ),
        ("key_costs", "cheap", "--key-costs is 'cheap'; valid: numbers of at least 0"),
        ("key_costs", "1..999999999", "or A..B for at most 100,000"),
    ],
)
def test_a_bad_value_is_named_with_the_valid_ones(name, value, message):
    with pytest.raises(UsageError) as error:
        Dataflow.of(settings(**{name: value}))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_topic_s_name_may_be_as_long_as_those_made_of_it_allow(delivery):
    def made(length):
        return settings(topic="t" * length, delivery=delivery, sources=1234567, workers=1234567)

    run = made(200)
    commits = COMMITS_TOPIC.format(topic="", id="0" * 12) if delivery == "exactly-once" else ""
    added = max(len(commits), *(len(name) - 200 for name in list_result_topics(run).values()))
    assert len(made(249 - added).topic) == 249 - added
    with pytest.raises(UsageError, match=f"has {250 - added} characters; valid: at most {249 - added}"):
        made(250 - added)


def test_options_are_read_by_their_defaults():
    """As the type of the default; one without a default is a number, or several."""
    given = ["half_life=1000", "own_choices=True", "tolerance=0.5", "weights=1,2.5", "balance=cost", "most_workers=3"]
    read = GroupingOptions(grouping_option=given).of(["D_CHOICES", "BOUNDED_LOAD"])
    assert read["D_CHOICES"] == {"half_life": 1000, "own_choices": True, "tolerance": 0.5}
    assert read["BOUNDED_LOAD"] == {"weights": [1, 2.5], "balance": "cost", "most_workers": 3}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("half_life=long", "'long'; valid: a number, or several"),
        ("own_choices=yes", "'yes'; valid: a value like False"),
    ],
)
def test_an_option_that_cannot_be_read_is_named(given, message):
    with pytest.raises(UsageError, match=message):
        GroupingOptions(grouping_option=[given]).of(["D_CHOICES"])


def test_the_simulated_cost():
    assert settings(speed="x0").cost.mean == 0
    assert settings(speed="x1").cost.mean == pytest.approx(0.001)
    assert settings(speed="x4", process_ms=2).cost.mean == pytest.approx(0.0005)


def test_the_simulated_cost_by_key():
    """The cost of a key is the same at routers and workers, and that of its class, as the paper's 64 values."""
    cost = settings(speed="x2", key_costs="1..64").cost
    ms = cost.of([f"item {i}" for i in range(20_000)])
    assert sorted(set(ms.tolist())) == [0.5 * value for value in range(1, 65)]
    assert np.bincount(np.rint(2 * ms).astype(int), minlength=65)[1:].min() > 200, "about as many keys of each"
    assert cost.of(["item 7", "item 7"]).tolist() == [ms[7], ms[7]]
    assert cost.total(["item 7", "item 9"]) == pytest.approx((ms[7] + ms[9]) / 1000)
    assert settings(speed="x1", key_costs="1..64").batch_limit == round(10_000 / 32.5)
    assert settings(speed="x1", key_costs="1..64", seed=1).cost.of(["item 7"]) != 2 * ms[7]


def test_a_batch_of_costly_tuples_is_a_second_of_work():
    assert settings(speed="x1").batch_limit == 10_000
    assert settings(speed="x1", max_tuples=77).batch_limit == 77
    assert settings(speed="x0").batch_limit >= 1_000_000


def test_topics_are_named_as_the_original_names_them():
    assert settings(grouping="DYNAMIC_KEY").name == "country-skew-80-s5-w10-dkg"
