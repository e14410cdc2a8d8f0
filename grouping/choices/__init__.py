"""Choices: a key has candidate workers, and each tuple (or each key) goes to the least loaded of them.

PARTIAL_KEY splits every key over d candidates; D_CHOICES and W_CHOICES give only the heavy hitters more than two; POTC,
ON_GREEDY and OFF_GREEDY choose once for a key and never split it.
"""

from grouping.choices.partial_key import PartialKey

__all__ = ["PartialKey"]
