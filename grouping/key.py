"""KEY: hash grouping, the bound of replication."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys


class Key(Grouping):
    """Send every tuple of a key to the one worker of its hash.

    Guarantees
    ----------
    * A key is on one worker, the same for every source: replication 1, nothing to aggregate.
    * No bound on imbalance: if one key with share p1 leads, the imbalance fraction tends to p1 − 1/W.

    Time O(1) a tuple. It needs no memory.

    References
    ----------
    Nasir et al., *The Power of Both Choices*, section II ("key grouping"); *Dynamic Key Grouping*, "Key Grouping".

    Examples
    --------
    >>> workers = Key(10).route(["tr", "de", "tr"])
    >>> bool(workers[0] == workers[2])
    True

    """

    name = "KEY"
    short = "kg"
    is_sticky = True

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        return self.owners(keys)[keys.codes]

    def owners(self, keys: Keys) -> NDArray[np.int32]:
        return choose_homes(keys.hashes, hash_function(self.seed), self.workers)
