"""Every dataset there is, a line each. A new one is its file and its line here."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from unskew.producers.dataset import Dataset
from unskew.producers.generators import synthetic
from unskew.producers.generators.clickstream import Clickstream
from unskew.producers.generators.country import Country
from unskew.producers.generators.election import Election
from unskew.producers.generators.pageviews import Pageviews
from unskew.producers.generators.pageviews_by_lang import PageviewsByLang
from unskew.producers.generators.ticker import Ticker

DATASETS: dict[str, Callable[..., Dataset]] = {
    **{f"COUNTRY_SKEW_R{ratio}": partial(Country, ratio) for ratio in range(0, 101, 10)},
    "COUNTRY_HALF_SKEW_R80": partial(Country, 80, half=True),
    "TWITTER_TICKER": Ticker,
    "TWITTER_ELECTION": Election,
    "WIKIPEDIA_PAGEVIEWS": Pageviews,
    "WIKIPEDIA_PAGEVIEWS_BY_LANG": PageviewsByLang,
    "WIKIPEDIA_CLICKSTREAM": Clickstream,
    "ZIPF": synthetic.zipf_keys,
    "DRIFTING_ZIPF": synthetic.drifting_zipf,
    "LN1": synthetic.lognormal_1,
    "LN2": synthetic.lognormal_2,
    "POSG_UNIFORM": synthetic.posg_uniform,
    "POSG_ZIPF": synthetic.posg_zipf,
}
# What every dataset has, and what is fixed by its name.
_COMMON = ("records", "seed", "ratio", "half")


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
        No dataset of that name, a parameter that it doesn't have, or a bad value: the message lists the valid ones.

    """
    make = _maker(name)
    for option in options:
        _require(name, parameters(name), option)
    if records is not None:
        options["records"] = records
    return make(seed=seed, **options)


def parameters(name: str) -> dict[str, Any]:
    """The dataset's own parameters with their defaults.

    Raises
    ------
    ValueError
        No dataset of that name.

    """
    signature = inspect.signature(_maker(name))
    return {p.name: p.default for p in signature.parameters.values() if p.name not in _COMMON}


def parsed(name: str, options: Iterable[str]) -> dict[str, Any]:
    """Parameters as users write them, ``NAME=VALUE``, in the types of their defaults.

    Examples
    --------
    >>> parsed("ZIPF", ["z=1.4", "keys=1000"])
    {'z': 1.4, 'keys': 1000}

    Raises
    ------
    ValueError
        Not of that form, no such parameter, or a value of another type.

    """
    return parsed_for(name, parameters(name), options)


def parsed_for(name: str, valid: Mapping[str, Any], options: Iterable[str]) -> dict[str, Any]:
    """The same for anything with a name and parameters of these defaults. Raises as ``parsed`` does."""
    values: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals:
            raise ValueError(f"{option!r} is not NAME=VALUE")
        kind = type(_require(name, valid, key))
        try:
            values[key] = kind(text)
        except ValueError:
            wanted = "an integer" if kind is int else "a number"
            raise ValueError(f"{key} is {text!r}; valid: {wanted}") from None
    return values


def _maker(name: str) -> Callable[..., Dataset]:
    try:
        return DATASETS[name.upper()]
    except KeyError:
        raise ValueError(f"unknown dataset {name!r}; valid: {', '.join(DATASETS)}") from None


def _require(name: str, valid: Mapping[str, Any], option: str) -> Any:
    if option not in valid:
        raise ValueError(f"{name} has no parameter {option!r}; valid: {', '.join(valid) or 'none'}")
    return valid[option]
