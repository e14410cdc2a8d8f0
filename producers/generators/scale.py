"""A dataset's published sizes, made smaller or larger."""

from typing import Any

from unskew.producers.dataset import Generated


class Scaled(Generated):
    """A generated dataset whose sizes are published.

    Parameters
    ----------
    scale : float
        The records and the keys, as a multiple of the published ones: 0.000001 to 10.
    records : int or None
        How many; None: the scale's. The number of keys there are does not depend on it.
    seed : int
        See ``Generated``.

    """

    def __init__(self, published: int, scale: float, records: int | None, seed: int) -> None:
        super().__init__(scaled(published, scale) if records is None else records, seed)
        self._scale = scale

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "scale": self._scale}


def scaled(size: int, scale: float) -> int:
    """``size`` times ``scale``, at least 2.

    Raises
    ------
    ValueError
        ``scale`` is not from a millionth to 10.

    """
    if not 1e-6 <= scale <= 10:
        raise ValueError(f"scale is {scale!r}; valid: 0.000001 to 10")
    return max(2, round(size * scale))
