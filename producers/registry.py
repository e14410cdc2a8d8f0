"""Every dataset there is, a line each. A new one is its file and its line here."""

from collections.abc import Callable
from functools import partial
from typing import Any

from producers.dataset import Dataset
from producers.generators import synthetic
from producers.generators.country import Country

DATASETS: dict[str, Callable[..., Dataset]] = {
    **{f"COUNTRY_SKEW_R{ratio}": partial(Country, ratio) for ratio in range(0, 101, 10)},
    "COUNTRY_HALF_SKEW_R80": partial(Country, 80, half=True),
    "ZIPF": synthetic.zipf_keys,
    "DRIFTING_ZIPF": synthetic.drifting_zipf,
    "LN1": synthetic.lognormal_1,
    "LN2": synthetic.lognormal_2,
    "POSG_UNIFORM": synthetic.posg_uniform,
    "POSG_ZIPF": synthetic.posg_zipf,
}


def create(name: str, *, records: int | None = None, seed: int = 0, **options: Any) -> Dataset:
    """The named dataset, generated from a seed.

    Parameters
    ----------
    name : str
        The source type, in any case.
    records : int or None
        How many; None: as many as the dataset has by default.
    seed : int
        Chooses the random draws.
    **options
        The dataset's own parameters.

    Raises
    ------
    ValueError
        No dataset of that name (the message lists those there are), or a bad value.

    """
    try:
        make = DATASETS[name.upper()]
    except KeyError:
        raise ValueError(f"unknown dataset {name!r}; valid: {', '.join(DATASETS)}") from None
    if records is not None:
        options["records"] = records
    return make(seed=seed, **options)
