"""Costs by class of the key, as in POSG's experiments: the same wherever the key comes from."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.hashing import function, homes
from unskew.grouping.keys import Keys


def class_costs(keys: Keys, values: Sequence[float], *, seed: int = 0) -> NDArray[np.float64]:
    """Costs by key class: each key is, by its hash, in one of the classes, whose tuples cost alike. float64[n], ms.

    Rivetti et al., *Proactive Online Scheduling for Shuffle Grouping*, section V-A, draw which keys cost what; here the
    seed does.
    """
    classes = homes(keys.hashes, function(seed, 1 << 20), len(values))
    return np.asarray(values, np.float64)[classes][keys.codes]
