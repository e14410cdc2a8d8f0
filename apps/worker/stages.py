"""The choice of the stage of a run's workers."""

from unskew.apps.operators.interface import KeyedWork
from unskew.apps.settings import Settings
from unskew.apps.worker.counting_stage import Counting
from unskew.apps.worker.stage import Stage
from unskew.apps.worker.stateful.stage import Keyed


def stage_of(settings: Settings) -> Stage:
    """The stage of a run's workers.

    Raises
    ------
    UsageError
        Its work can't have one of the settings.

    """
    return (Keyed if isinstance(settings.work, KeyedWork) else Counting)(settings)
