"""Keyed operators: user code with a state per key, and the ready-made ones."""

from unskew.apps.operators import *  # noqa: F403  # just these names
from unskew.apps.operators import __all__ as __all__  # noqa: PLC0414  # this module's, too
