"""Keyed operators: what a worker remembers of each of its keys, and the results that it makes of this."""

from unskew.apps.operators import *  # noqa: F403  # just these names
from unskew.apps.operators import __all__ as __all__  # noqa: PLC0414  # this module's, too
