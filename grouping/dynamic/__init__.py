"""Dynamic Key Grouping: a pool of workers for each key, growing with its load."""

from grouping.dynamic.dynamic_key import DynamicKey
from grouping.dynamic.dynamic_key_decay import DynamicKeyDecay

__all__ = ["DynamicKey", "DynamicKeyDecay"]
