"""One colour for each grouping, the same on dashboards, plots and terminal.

The bounds are greys; each family has its hue, and its members differ in lightness. The schemes that a reader meets
first (SHUFFLE, KEY, PARTIAL_KEY, DYNAMIC_KEY) are as far apart as can be, in greyscale and for the colour-blind too.
"""

COLOURS: dict[str, str] = {
    # bounds
    "SHUFFLE": "#8c8c8c",
    "KEY": "#d55e00",
    "FULL_KNOWLEDGE": "#1a1a1a",
    # bounded load
    "BOUNDED_LOAD": "#c1121f",
    # planned
    "PLANNED": "#f28482",
    # choices
    "PARTIAL_KEY": "#0072b2",
    "POTC": "#6baed6",
    "ON_GREEDY": "#08519c",
    "OFF_GREEDY": "#08306b",
    "D_CHOICES": "#00b4c8",
    "W_CHOICES": "#7fd7e0",
    "HOLISTIC": "#3f37c9",
    # dynamic
    "DYNAMIC_KEY": "#009e73",
    "DYNAMIC_KEY_DECAY": "#74c69d",
    # routing table over a hash
    "LLFD": "#cc79a7",
    "MINTABLE": "#9e4f86",
    "MINMIG": "#e3a8cb",
    "MIXED": "#7b2d8b",
    "MIXED_BF": "#4a1a5c",
    "READJ": "#b07aa1",
    # execution-time sketches, ring
    "POSG": "#e69f00",
    "CONSISTENT_HASH": "#b59f00",
    # learned
    "DALTON": "#8d5524",
}

_OTHER = "#595959"


def colour(grouping: str) -> str:
    """The hex colour of a groupingType; a neutral one for a scheme that has none of its own."""
    return COLOURS.get(grouping, _OTHER)
