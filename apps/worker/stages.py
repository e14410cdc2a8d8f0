"""The choice of the stage of a run's workers."""

from unskew.apps.operators.interface import KeyedOperator
from unskew.apps.settings import Settings
from unskew.apps.worker.counting_stage import CountingStage
from unskew.apps.worker.stage import WorkerStage
from unskew.apps.worker.stateful.stage import KeyedStage


def make_stage(settings: Settings) -> WorkerStage:
    """The stage of a run's workers.

    Raises ``UsageError`` if its work can't have one of the settings.
    """
    return (KeyedStage if isinstance(settings.work, KeyedOperator) else CountingStage)(settings)
