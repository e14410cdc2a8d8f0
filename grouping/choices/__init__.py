"""Choices: each tuple goes to the least loaded of its key's candidate workers.

PARTIAL_KEY splits every key over d candidates. D_CHOICES and W_CHOICES give more than two workers only to heavy
hitters. Similar schemes are in ``unskew.grouping.papers``: HOLISTIC gives heavy hitters as many as their load needs,
PORC sends a tuple to the first candidate that isn't full, and POTC, ON_GREEDY and OFF_GREEDY choose once per key and
never split it.
"""

from unskew.grouping.choices.d_choices import DChoices
from unskew.grouping.choices.partial_key import PartialKey
from unskew.grouping.choices.w_choices import WChoices

__all__ = ["DChoices", "PartialKey", "WChoices"]
