"""The country streams: one hot key, and a uniform rest."""

from functools import cache
from importlib.resources import files

import numpy as np
import pyarrow as pa

from unskew.producers.datasets.interface import Block, GeneratedDataset, KeyField, PublishedStatistics
from unskew.producers.messages import make_country_messages

SKEW_KEY = "Turkey"


@cache
def load_countries() -> tuple[str, ...]:
    """The names of the uniform part; the skew key is one of them."""
    return tuple(files("unskew.producers.datasets").joinpath("countries.txt").read_text(encoding="utf-8").splitlines())


class Country(GeneratedDataset):
    """``{"country"}`` messages: ``Turkey`` with probability R %, else any country of the world, all equally likely.

    As in the original, the hot key is among these countries too, so p1 = R + (1 - R) / 197. The original's list names
    a few countries twice; ours has each once.

    Parameters
    ----------
    ratio : int
        R, 0 to 100: the hot key's extra share in %.
    half : bool
        Whether the second half of the stream has R = 0. The hot key then turns cold.
    records, seed : int
        See ``GeneratedDataset``.

    References
    ----------
    Dalabasmaz, Can: Dynamic Key Grouping, 2020: the datasets COUNTRY_SKEW_R0 … R100 and COUNTRY_HALF_SKEW_R80.

    Examples
    --------
    >>> next(Country(100, records=2).blocks()).messages.to_pylist()
    [b'{"country":"Turkey"}', b'{"country":"Turkey"}']

    """

    key = KeyField(("country",))

    def __init__(self, ratio: int, *, half: bool = False, records: int = 10_000_000, seed: int = 0) -> None:
        super().__init__(records, seed)
        if not 0 <= ratio <= 100:
            raise ValueError(f"ratio is {ratio!r}; valid: 0 to 100 (%)")
        self.ratio = ratio
        share = ratio / 200 if half else ratio / 100
        p1 = share + (1 - share) / len(load_countries())
        self.published = PublishedStatistics(
            "DKG: its definition", 10_000_000, len(load_countries()) if ratio < 100 else 1, p1
        )
        self._turn = records // 2 if half else None
        self.name = f"COUNTRY_HALF_SKEW_R{ratio}" if half else f"COUNTRY_SKEW_R{ratio}"
        self.summary = f"{SKEW_KEY} with {ratio} %, else one of {len(load_countries())} countries" + (
            "; uniform from the middle on" if half else ""
        )
        self._distinct = make_country_messages(pa.array(load_countries()))
        self._skewed = load_countries().index(SKEW_KEY)

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        # One draw decides both: below the ratio it is the skew key, and what is above it is uniform again.
        skew = np.full(self.chunk, self.ratio / 100)
        if self._turn is not None:
            skew[max(self._turn - first, 0) :] = 0
        draw = rng.random(self.chunk)
        hot = draw < skew
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = np.where(hot, 0, (draw - skew) / (1 - skew))
        # Rounding may lift a draw just below 1 to 1.
        codes = np.minimum((rest * len(load_countries())).astype(np.int32), len(load_countries()) - 1)
        return self._distinct.take(np.where(hot, self._skewed, codes).astype(np.int32))
