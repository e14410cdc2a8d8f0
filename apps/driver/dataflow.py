"""The topology's dataflow: source → splitter → router → the workers' stage, up to closed windows.

``streaming_job`` runs it, and ``batch_committer`` publishes the closed windows.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.plans.planned_routing import make_planner
from unskew.apps.driver.plans.planner import Planner
from unskew.apps.metrics.task_reports import Reports
from unskew.apps.router.router import Routing
from unskew.apps.settings import Settings
from unskew.apps.splitter.kafka_source import choose_splitter, open_topic, select_messages
from unskew.apps.worker.stage import QueryContext, WorkerStage
from unskew.apps.worker.stages import make_stage
from unskew.errors import UsageError
from unskew.grouping import add_sources, create, get_grouping
from unskew.grouping.feedback_loop import FeedbackLoop


@dataclass(frozen=True)
class Dataflow:
    """The dataflow of one run. ``of`` creates it, after checking all settings."""

    settings: Settings  #: The settings.
    stage: WorkerStage  #: The workers' stage.

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Create the dataflow of a run with these settings.

        Raises ``UsageError`` if the source type or grouping doesn't exist, or lacks a field, format or option; or a
        setting is invalid for the user's work.
        """
        choose_splitter(settings)
        _require_grouping(settings)
        return cls(settings, make_stage(settings))

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that identify a checkpoint's run."""
        return self.settings.identity | self.stage.identity

    def routing(self, reports: Reports | None = None) -> Routing:
        """The routing of the sources, which depends on the checkpoint's present plans."""
        settings = self.settings
        options = add_sources(settings.grouping, settings.sources, settings.options)
        of = settings.grouping, settings.workers, settings.location, options, settings.seed
        routing = Routing(*of, reports, streaming=True, cost=settings.cost)
        plans = PlanStateLog(settings.location)
        planned = plans.newest() is not None or routing.router().controller() is not None
        return replace(routing, plans=plans.at) if planned else routing

    def loop(self) -> FeedbackLoop | None:
        """The feedback loop, or None if the grouping has no controller, and the checkpoint never had another W."""
        routing = self.routing()
        if routing.plans is None:
            return None
        moving = self.stage.whole and routing.router().migrates_keys
        return FeedbackLoop(routing.router, self.settings.workers, moving, keyed=self.stage.keyed)

    def planner(self, spark: SparkSession) -> Planner | None:
        """The planner of one query, or None if the grouping plans no batches, or each source plans its part."""
        # (The routing reads the checkpoint, for which other groupings needn't wait.)
        return make_planner(spark, self.routing()) if get_grouping(self.settings.grouping).batched else None

    def rows(self, spark: SparkSession, query: QueryContext | None = None) -> DataFrame:
        """The whole dataflow as a streaming DataFrame, up to the rows of closed windows.

        Its columns are window (struct of start, end), key, worker, tuples, count. Rows of worker −1 are heartbeats, to
        be left out. With a keyed operator, there is also ``result`` (a struct), null for counts. A result has a key,
        worker −1, and a window, whose start is null if states outlive windows.
        """
        query = query or QueryContext()
        splitter, read = open_topic(spark, self.settings, query.ahead_ms, count_bytes=query.count_bytes)
        arriving = select_messages(self.settings, read, splitter)
        routing = replace(self.routing(query.reports), planner=query.planner)
        return self.stage.rows(arriving, splitter, routing, query)


def _require_grouping(settings: Settings) -> None:
    """Refuse a grouping that doesn't exist, or that lacks what it needs."""
    router = create(settings.grouping, settings.workers, seed=settings.seed, **settings.options)
    cost = settings.cost
    if cost.factors and not cost.mean:
        raise UsageError(f"key_costs is {settings.key_costs!r}, but tuples cost nothing; valid: with a speed of x1, …")
    if router.uses_cost and not cost.factors:
        raise UsageError(
            f"{router.name} needs each tuple's cost before it is executed; valid: with costs that go by key, such as "
            "--key-costs 1..64"
        )
