"""A dataset's published sizes, made smaller or larger."""


def scaled(size: int, scale: float) -> int:
    """``size`` times ``scale``, at least 2.

    Raises
    ------
    ValueError
        ``scale`` is not from a millionth to 100.

    """
    if not 1e-6 <= scale <= 100:
        raise ValueError(f"scale is {scale!r}; valid: 0.000001 to 100")
    return max(2, round(size * scale))
