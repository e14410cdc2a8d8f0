"""How the difference of two figures is said."""

_TIMES = 2.0  # from this ratio on, a difference is said as a ratio


def relative(paper: float, ours: float) -> str:
    """In percent of the paper's figure, or as a ratio if one is at least twice the other.

    >>> relative(0.02, 0.0236), relative(10, 9.99), relative(0.0078, 0.00132), relative(0, 0), relative(0, 1)
    ('+18 %', '0 %', '÷ 5.91', '0 %', 'from 0')
    """
    if not paper:
        return "from 0" if ours else "0 %"
    ratio = ours / paper
    if ratio >= _TIMES:
        return f"× {ratio:.3g}"
    if 0 < ratio <= 1 / _TIMES:
        return f"÷ {1 / ratio:.3g}"
    return _signed(f"{100 * (ratio - 1):+.0f}", " %")


def absolute(paper: float, ours: float) -> str:
    """In the figure's own unit.

    >>> absolute(1.19, 1.01), absolute(0.2, 0.2)
    ('−0.18', '0.00')
    """
    return _signed(f"{ours - paper:+.2f}", "")


def _signed(number: str, unit: str) -> str:
    """A number with a minus of its own width, and without a sign if it is 0."""
    return (number.replace("-", "−") if float(number) else number.lstrip("+-")) + unit
