"""Choices: a key has candidate workers, and each tuple goes to the least loaded of them.

PARTIAL_KEY splits every key over d candidates. D_CHOICES and W_CHOICES give more than two workers only to the heavy
hitters. Others of the kind are in ``unskew.grouping.papers``: HOLISTIC gives a heavy hitter as many as its load asks
for, PORC sends a tuple to the first candidate that isn't full, and POTC, ON_GREEDY and OFF_GREEDY choose once for a key
and never split it.
"""

from unskew.grouping.choices.d_choices import DChoices
from unskew.grouping.choices.partial_key import PartialKey
from unskew.grouping.choices.w_choices import WChoices

__all__ = ["DChoices", "PartialKey", "WChoices"]
