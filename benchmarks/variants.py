"""Groupings with options, as the comparisons are told them."""

from ast import literal_eval


def variant(text):
    """Read ``NAME`` or ``NAME:option=value,...``: the grouping's name and its options.

    >>> variant("d_choices:half_life=100_000,own_choices=True")
    ('D_CHOICES', {'half_life': 100000, 'own_choices': True})
    """
    name, _, options = text.partition(":")
    pairs = [option.split("=") for option in options.split(",") if option]
    return name.upper(), {option: literal_eval(value) for option, value in pairs}
