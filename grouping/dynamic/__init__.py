"""Dynamic Key Grouping: each key has a pool of workers that grows with its load."""

from unskew.grouping.dynamic.dynamic_key import DynamicKey
from unskew.grouping.dynamic.dynamic_key_decay import DynamicKeyDecay

__all__ = ["DynamicKey", "DynamicKeyDecay"]
