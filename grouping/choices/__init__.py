"""Choices: a key has candidate workers, and each tuple (or each key) goes to the least loaded of them.

PARTIAL_KEY splits every key over d candidates. D_CHOICES and W_CHOICES give more than two workers only to the heavy
hitters. HOLISTIC gives a heavy hitter as many as its load asks for. PORC sends a tuple to the first candidate that
isn't full. POTC, ON_GREEDY and OFF_GREEDY choose once for a key and never split it.
"""

from unskew.grouping.choices.d_choices import DChoices
from unskew.grouping.choices.holistic import Holistic
from unskew.grouping.choices.off_greedy import OffGreedy
from unskew.grouping.choices.on_greedy import OnGreedy
from unskew.grouping.choices.partial_key import PartialKey
from unskew.grouping.choices.porc import Porc
from unskew.grouping.choices.potc import Potc
from unskew.grouping.choices.w_choices import WChoices

__all__ = ["DChoices", "Holistic", "OffGreedy", "OnGreedy", "PartialKey", "Porc", "Potc", "WChoices"]
