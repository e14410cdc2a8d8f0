"""Checks a run's topic and checkpoint before it begins."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import orjson
from confluent_kafka import KafkaException

from unskew.apps.aggregator.exactly_once import TransactionalPartitions, list_roles, load_or_create
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.checkpoint.checkpoint import COMMITS, GENERATION, Checkpoint, WorkerHistory
from unskew.apps.checkpoint.versions import TotalsLog
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.plans.feedback_loop import record_workers, require_known_plans
from unskew.apps.settings import Settings
from unskew.apps.splitter.json_fields import FRAME
from unskew.apps.splitter.kafka_source import (
    count_lost_messages,
    count_skipped_messages,
    describe_loss,
    make_field_columns,
)
from unskew.errors import EnvironmentFault, UsageError, suggest_names
from unskew.kafka.reader import newest_messages
from unskew.kafka.topics import COMMITS_TOPIC, count_partitions, end_offsets, ensure_topic, missing_topic, topic_id

log = logging.getLogger(__name__)


def require_topic(settings: Settings, *, begun: bool) -> None:
    """Create a missing topic. If the topic's partitions have grown since the run began, the run has more sources.

    A user-defined topic isn't created unless the settings say so.

    Raises ``UsageError`` if the topic has another number of partitions than the run has sources, or is missing and may
    not be created; ``EnvironmentFault`` if the broker can't be reached.
    """
    may_create = settings.create_topic or settings.source_type.upper() != "COLUMN"
    found = count_partitions(settings.connection, settings.topic) if begun or not may_create else None
    if found is None and not may_create:
        raise missing_topic(settings.connection, settings.topic, ": --create-topic makes it")
    if begun and found is not None and found > settings.sources:
        log.warning(
            "topic %s has %d partitions, %d when the run began: it goes on with %d sources",
            *(settings.topic, found, settings.sources, found),
        )
    else:
        ensure_topic(settings.connection, settings.topic, settings.sources)


def require_fields(settings: Settings) -> None:
    """Refuse a field, perhaps misspelt, that none of the topic's newest JSON objects has.

    The fields are the key's in a user-defined topic, and others that the run reads. A run that has begun isn't checked:
    its messages had them.

    Raises
    ------
    UsageError
        There are objects, and none has the field. The message lists their fields.

    """
    key_field = settings.key_field if settings.source_type.upper() == "COLUMN" else None
    wanted = [("key_field", key_field)] if key_field is not None else []
    wanted += [(column.option, column.path) for column in make_field_columns(settings)]
    if settings.format not in (None, "json") or not wanted:
        return
    found = [
        _list_fields(message.value() or b"") for message in newest_messages(settings.connection, settings.topic, 100)
    ]
    objects = [fields for fields in found if fields]
    for option, field in wanted:
        if objects and not any(field in fields for fields in objects):
            raise UsageError(
                f"{option} is {field!r}, but none of the {len(objects)} newest objects in topic {settings.topic} has "
                f"it{suggest_names(field, dict.fromkeys(chain.from_iterable(objects)))}"
            )


def _list_fields(message: bytes) -> list[str]:
    """The fields of a JSON object, and with dots those of nested objects."""
    try:
        found = orjson.loads(message[FRAME:] if message[:1] == b"\0" else message)
    except orjson.JSONDecodeError:
        return []
    return list(_list_paths(found, ""))


def _list_paths(value: Any, prefix: str) -> Iterator[str]:
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield prefix + name
        yield from _list_paths(inner, f"{prefix}{name}.")


def require_own_checkpoint(dataflow: Dataflow, checkpoint: Checkpoint, claimed: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of another run, and one that can't be written. Claim a new one for this run.

    One that has begun isn't changed, because another driver may be using it.

    ``claimed`` is the checkpoint's record of its run, or empty.

    Raises ``UsageError`` if the checkpoint belongs to another run; ``EnvironmentFault`` if the checkpoint can't be
    written, or its states were moved by another version's plan.
    """
    run, changing = _describe_run(dataflow, claimed)
    checkpoint.check(run, changing)
    require_plans(dataflow)
    if claimed:
        checkpoint.require_writable()
    else:
        checkpoint.claim(run)


def claim_checkpoint(dataflow: Dataflow, checkpoint: Checkpoint) -> None:
    """Claim the checkpoint for this run, once this driver has its lease. A run with another W may resume from it.

    Raises ``UsageError`` if the checkpoint belongs to another run.
    """
    claimed, workers = checkpoint.read_record(), dataflow.settings.workers
    run, changing = _describe_run(dataflow, claimed)
    checkpoint.check(run, changing)
    if claimed.get("numWorkers", workers) != workers:
        record_workers(checkpoint.location, claimed["numWorkers"], checkpoint.newest_batch())
        log.warning("the checkpoint has %d workers: one batch more, then it has %d", claimed["numWorkers"], workers)
    checkpoint.claim(run, changing)
    checkpoint.tidy()


def _describe_run(dataflow: Dataflow, claimed: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of this run for the checkpoint's record, and the names of those that may differ."""
    history = WorkerHistory.of(claimed, dataflow.settings.workers).entries()
    new = dataflow.stage.changed_fields(claimed)
    return dataflow.identity | history | new, ("numWorkers", *history, *new)


def number_generation(settings: Settings, checkpoint: Checkpoint) -> None:
    """Record the generation of this checkpoint's records in the topic whose records are overwritten.

    That is the topic of a keyed operator's results, or of counts published as they change. The generation is later than
    all in the topic.

    Each checkpoint numbers batches from 0, and their times don't order them either, because clocks are set. So the
    generation is the number of records that the topic had when this checkpoint first used it. A recreated topic is
    another one, and so is that of another W.
    """
    topics = list_result_topics(settings)
    topic = topics["aggregator"] if settings.emit == "changes" else topics.get("results")
    if topic is None:
        return
    which = f"{topic} {topic_id(settings.connection.admin(), topic) or ''}".strip()
    if checkpoint.read_record().get(GENERATION, {}).get("of") != which:
        written = sum(end_offsets(settings.connection, topic, committed=False).values())
        checkpoint.claim({GENERATION: {"of": which, "number": written}}, (GENERATION,))


def load_or_create_partitions(
    settings: Settings, checkpoint: Checkpoint, partitions: int
) -> TransactionalPartitions | None:
    """The writers that publish the checkpoint's batches exactly once, or None if the settings say at least once.

    A new checkpoint, whose lease the driver has, gets as many writers for counts as ``partitions``, and as many for
    results. One that has begun gets as many as its state has partitions, whose tasks publish changes.

    Raises ``EnvironmentFault`` if the broker or the checkpoint can't be reached.
    """
    if settings.delivery != "exactly-once":
        return None
    return load_or_create(checkpoint, checkpoint.partitions() or partitions, partial(_make_partitions, settings))


def delete_commits_topic(settings: Settings) -> None:
    """Delete the topic with a checkpoint's batch numbers, before the checkpoint is removed."""
    found = Checkpoint(settings.location).read_record().get(COMMITS)
    if found is None:
        return
    topic = _make_partitions(settings, found).topic
    admin = settings.connection.admin()  # named, so that it lives until the answer
    try:
        admin.delete_topics([topic])[topic].result()
    except KafkaException as error:
        log.info("topic %s is left: %s", topic, error)


def _make_partitions(settings: Settings, found: Mapping[str, Any]) -> TransactionalPartitions:
    keyed = "results" in list_result_topics(settings)
    topic = COMMITS_TOPIC.format(topic=settings.topic, id=found["id"])
    return TransactionalPartitions(settings.connection, topic, list_roles(found["parts"], keyed=keyed))


def require_plans(dataflow: Dataflow) -> None:
    """Refuse a checkpoint whose keys another version's plan moved, which these routers can't follow.

    Raises ``EnvironmentFault`` if the checkpoint has such a plan.
    """
    loop = dataflow.loop()
    if loop is not None:
        require_known_plans(loop, dataflow.settings.location)


def require_messages(settings: Settings, checkpoint: Checkpoint, *, held: bool = True) -> None:
    """Refuse to resume if the topic no longer has the next messages.

    Unless the driver has the checkpoint's lease (``held``), nothing is recorded there.

    Raises
    ------
    EnvironmentFault
        The messages are gone, or the topic was recreated, and the settings don't say to skip them. Or an earlier run,
        which read uncommitted messages, has counted some of a transaction that is still open.

    """
    topic = settings.topic
    following = checkpoint.next_offsets().get(topic)
    require_same_topic(settings, checkpoint, following or {}, topic_id(settings.connection.admin(), topic), held=held)
    if following and settings.connection.reads_committed:
        ends, there = (end_offsets(settings.connection, topic, committed=committed) for committed in (True, False))
        if any(ends.get(int(p), 0) < offset <= there.get(int(p), 0) for p, offset in following.items()):
            raise EnvironmentFault(
                f"the checkpoint {checkpoint.location} has counted messages of a transaction in topic {topic} that is "
                "still open: start again when it is over, or with isolation.level=read_uncommitted in --kafka-config"
            )
    if following and settings.on_data_loss == "fail":
        lost = count_lost_messages(settings.connection, topic, following)
        if lost:
            raise EnvironmentFault(describe_loss(topic, lost))


def require_same_topic(
    settings: Settings, checkpoint: Checkpoint, following: Mapping[str, int], found: str | None, *, held: bool = True
) -> None:
    """Refuse to resume in a recreated topic, because the old one's offsets would skip its messages.

    ``following`` has the offsets at which reading resumes, by partition, and ``found`` is the present topic's id, if
    known. If the settings say to skip lost messages, the run resumes at these offsets. The new topic's messages before
    them are reported and counted. If the driver has the checkpoint's lease (``held``), it may record the topic there.

    Raises ``EnvironmentFault`` if it is another topic, and the settings don't say to skip messages.
    """
    noted, topic = checkpoint.read_record().get("topicId"), settings.topic
    if found in (None, noted):
        return
    if noted is None:
        if held:
            checkpoint.claim({"topicId": found})
        return
    what = f"topic {topic} was deleted and made again since the checkpoint {checkpoint.location} began (id {noted}, "
    what += f"now {found})"
    if settings.on_data_loss == "fail":
        raise EnvironmentFault(
            f"{what}: begin with another --checkpoint; --on-data-loss skip goes on at the offsets of the old one"
        )
    if not held:
        return
    skipped = sum(count_skipped_messages(settings.connection, topic, following).values())
    log.warning("%s: it goes on at the offsets of the old one, and skips %s messages", what, f"{skipped:,}")
    checkpoint.claim({"topicId": found}, ("topicId",))
    totals, batch = TotalsLog(settings.location), checkpoint.next_batch()
    before = totals.at(batch)
    totals.write(batch, replace(before, skipped=before.skipped + skipped))
