"""What a run goes on from: its checkpoint must be its own, and its topic as it was, or have grown."""

import logging
from collections.abc import Mapping
from typing import Any

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.crew import Crew
from unskew.apps.feedback.loop import looped
from unskew.apps.feedback.plans import Plans
from unskew.apps.feedback.rescaling import begun_with
from unskew.apps.topology.loss import complaint, gone
from unskew.apps.topology.settings import Settings
from unskew.deploy.client.topics import ensure_topic, partitions_of
from unskew.errors import EnvironmentFault

log = logging.getLogger(__name__)


def require_topic(settings: Settings, *, begun: bool) -> None:
    """Make the topic if it is missing; one that has got more partitions since the run began is a run of more sources.

    Raises
    ------
    UsageError
        It has another number of partitions than the run has sources.
    EnvironmentFault
        The broker can't be reached.

    """
    found = partitions_of(settings.connection, settings.source_name) if begun else None
    if found is not None and found > settings.sources:
        log.warning(
            "topic %s has %d partitions, %d when the run began: it goes on with %d sources",
            settings.source_name, found, settings.sources, found,
        )  # fmt: skip
    else:
        ensure_topic(settings.connection, settings.source_name, settings.sources)


def claim(settings: Settings, checkpoint: Checkpoint, claimed: Mapping[str, Any]) -> None:
    """Make the checkpoint this run's; with another number of workers it goes on (``unskew.apps.feedback.rescaling``).

    Raises
    ------
    UsageError
        The checkpoint belongs to another run.

    """
    workers = settings.workers
    crew = Crew.of(claimed, workers).noted()
    run, changing = settings.identity | crew, ("numWorkers", *crew)
    # Nothing is written before it is certain that the checkpoint is this run's.
    checkpoint.check(run, changing)
    require_plans(settings)
    if claimed.get("numWorkers", workers) != workers:
        begun_with(checkpoint.place, claimed["numWorkers"], checkpoint.planned())
        log.warning("the checkpoint has %d workers: one batch more, then it has %d", claimed["numWorkers"], workers)
    checkpoint.claim(run, changing)


def require_plans(settings: Settings) -> None:
    """Refuse a checkpoint whose states lie where plans put them that routers of this version can't go by.

    Raises
    ------
    EnvironmentFault
        It is such a one.

    """
    loop = looped(settings)
    standing = Plans(settings.place).newest() if loop is not None and loop.moving else None
    if loop is None or standing is None:
        return
    for plan, workers in ((standing.active, standing.workers), (standing.pending, standing.pending_workers)):
        identity = loop.router(workers).identity
        if plan is not None and plan.identity != identity:
            raise EnvironmentFault(
                f"the states of {settings.checkpoint} lie as a plan for ({plan.identity}) has it, this version has "
                f"({identity}): go on with the version that made it, or begin with another --checkpoint"
            )


def require_messages(settings: Settings, checkpoint: Checkpoint) -> None:
    """Complain if the topic no longer has what comes next.

    Raises
    ------
    EnvironmentFault
        It doesn't, and the settings don't say to go on without.

    """
    topic = settings.source_name
    following = checkpoint.next_offsets().get(topic)
    if following and settings.on_data_loss == "fail":
        lost = gone(settings.connection, topic, following)
        if lost:
            raise EnvironmentFault(complaint(topic, lost))
