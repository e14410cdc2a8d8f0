"""Values as people read them, in Grafana's units: those that the dashboards use."""

from collections.abc import Callable

_SI = ("", " k", " M", " G", " T")
_BYTES = (" B", " KiB", " MiB", " GiB", " TiB")
_TIMES = ((1e-9, " ns"), (1e-6, " µs"), (1e-3, " ms"), (1, " s"), (60, " min"), (3600, " h"), (86400, " d"))


def _scaled(value: float, step: float, names: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= step and power < len(names) - 1:
        value, power = value / step, power + 1
    return f"{_digits(value)}{names[power]}"


def _digits(value: float) -> str:
    """Three significant ones, no needless zeros.

    >>> [_digits(value) for value in (0, 0.004567, 1.5, 12.345, 1234.5)]
    ['0', '0.00457', '1.5', '12.3', '1234']
    """
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def _time(seconds: float) -> str:
    fitting = [(size, name) for size, name in _TIMES if abs(seconds) >= size]
    size, name = fitting[-1] if fitting else _TIMES[3]
    return f"{_digits(seconds / size)}{name}"


#: Grafana's name of a unit → how a value is written.
FORMATS: dict[str, Callable[[float], str]] = {
    "none": _digits,
    "short": lambda value: _scaled(value, 1000, _SI),
    "percent": lambda value: f"{_digits(value)} %",
    "percentunit": lambda value: f"{_digits(100 * value)} %",
    "s": _time,
    "ms": lambda value: _time(value / 1e3),
    "ns": lambda value: _time(value / 1e9),
    "bytes": lambda value: _scaled(value, 1024, _BYTES),
    "si: tuples/s": lambda value: f"{_scaled(value, 1000, _SI)} tuples/s",
    "si: messages/s": lambda value: f"{_scaled(value, 1000, _SI)} messages/s",
    "si: points/s": lambda value: f"{_scaled(value, 1000, _SI)} points/s",
}


def written(value: float | str | None, unit: str, decimals: int | None = None) -> str:
    """A value in a unit.

    Parameters
    ----------
    value : float, str or None
        A text stays as it is; nothing is a dash.
    unit : str
        One of ``FORMATS``.
    decimals : int, optional
        So many after the point; as many as are telling, by default.

    Examples
    --------
    >>> written(12345.6, "short"), written(0.00071, "s"), written(7.4392, "percent", 2), written(None, "s")
    ('12.3 k', '710 µs', '7.44 %', '–')

    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if decimals is not None and unit in ("percent", "none"):
        return f"{value:.{decimals}f}{' %' if unit == 'percent' else ''}"
    return FORMATS[unit](value)
