"""A dataset's published sizes, made smaller or larger."""


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
