"""Works with a state per key: what a worker remembers of each of its keys, and what it makes of it."""

from unskew.works.interface import KeyedWork, Now

__all__ = ["KeyedWork", "Now"]

if __name__ != "unskew.works":  # a second copy of every module would come of it
    raise ImportError(f"{__name__} is imported as unskew.works")
