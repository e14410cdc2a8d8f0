"""Checks that driver and executors have the same version of Python. Any Python 3 can read this file."""

import os
import sys

#: The variable with the driver's version for executors.
VERSION = "UNSKEW_PYTHON_VERSION"
#: This Python's minor version, such as 3.11. Another one can't read its pickles.
OWN_VERSION = "{}.{}".format(*sys.version_info[:2])


def require_same_version() -> None:
    """End this process if the driver's Python has another version."""
    drivers = os.environ.get(VERSION, OWN_VERSION)
    if drivers != OWN_VERSION:
        sys.exit(f"it is Python {OWN_VERSION}, the driver's is {drivers}")
