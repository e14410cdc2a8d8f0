import numpy as np
import pytest

from tests.apps.local_settings import settings
from tests.apps.stateful.driver import Tally
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.cli.option_groups import GroupingOptions
from unskew.apps.driver.dataflow import Dataflow
from unskew.errors import UsageError
from unskew.kafka.topics import COMMITS_TOPIC

KEYED = {"grouping": "D_CHOICES", "work": Tally("offset")}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sources": 0}, "sources is 0"),
        ({"workers": -3}, "workers is -3"),
        ({"window": 0}, "window is 0"),
        ({"window": 0.0333}, "window is 0.0333; valid: whole milliseconds"),
        ({"lateness": -1}, "lateness is -1"),
        ({"starting_offsets": "earlist"}, "is 'earlist'; did you mean earliest? valid: earliest, latest"),
        ({"max_tuples": 0}, "max_tuples is 0"),
        ({"time": "clock"}, "'clock'; valid: batch, event"),
        ({"grouping": "FULL_KNOWLEDGE"}, "FULL_KNOWLEDGE needs each tuple's cost before it is executed; valid: with"),
        ({"key_costs": "cheap"}, "--key-costs is 'cheap'; valid: numbers of at least 0"),
        ({"key_costs": "1..999999999"}, "or A..B for at most 100,000"),
        ({"delivery": "twice"}, "unknown delivery 'twice'; valid: at-least-once, exactly-once"),
        ({"time_field": "at", "time": "batch"}, "time is 'batch'; valid with a time field: event, or leave it out"),
        ({"time_unit": "s", "time": "event"}, "time_unit is 's'; valid: with a time field alone"),
        ({"time_field": "at", "time_unit": "min"}, "unknown time_unit 'min'; valid: s, ms, us, ns"),
        ({"ttl": 5.0}, "ttl is 5.0, but no work has states"),
        (KEYED | {"work_errors": "reject"}, "work_errors is 'reject'; valid for a work with states: fail"),
        (KEYED | {"grouping": "KEY", "merge_every": "5s"}, "merge_every is '5s', but KEY splits no keys"),
        (KEYED | {"merge_every": "often"}, "merge_every is 'often'; valid: a duration"),
        (KEYED | {"ttl": 0.0}, "ttl is 0"),
        (KEYED | {"ttl": 60.0, "slide": 5.0}, "slide is 5.0, but the states of Tally live for a TTL; valid: no slide"),
        (
            {"source_type": "TWITTER_ELECTION", "work": Tally("speed")},
            "the work's column is 'speed'; valid with sourceType TWITTER_ELECTION: value, topic",
        ),
        (
            {"source_type": "COLUMN", "format": "text", "work": Tally("speed")},
            "is 'speed'; valid with format text: value, topic",
        ),
        (
            {"source_type": "COLUMN", "format": "csv", "key_field": "1", "work": Tally("speed")},
            "valid with format csv: value, topic",
        ),
    ],
)
def test_a_bad_value_is_named_with_the_valid_ones(given, message):
    """What no command can be asked for in the same way: `test_launch` has the others."""
    with pytest.raises(UsageError) as error:
        Dataflow.of(settings(**given))
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
