"""Dynamic Key Grouping: a pool of workers for each key, growing with its load."""

from unskew.grouping.dynamic.dynamic_key import DynamicKey
from unskew.grouping.dynamic.dynamic_key_decay import DynamicKeyDecay

__all__ = ["DynamicKey", "DynamicKeyDecay"]
