"""One colour for each grouping, the same on plots and terminal, and one for each family of groupings on dashboards.

The groupings that a reader meets first have the colours of Okabe and Ito (https://jfly.uni-koeln.de/color/). KEY, whose
load is uneven, has the colour of an alarm; the groupings that balance any stream have calm ones. The other colours lie
as far apart as a search found, for readers with and without colour blindness. All can be read on white and on black.
``tests/monitoring/test_colours.py`` holds the distances.
"""

COLOURS: dict[str, str] = {
    # bounds
    "SHUFFLE": "#555555",
    "KEY": "#d55e00",
    "FULL_KNOWLEDGE": "#bbbbbb",
    # bounded load
    "BOUNDED_LOAD": "#0072b2",
    # planned
    "PLANNED": "#009e73",
    # choices
    "PARTIAL_KEY": "#e69f00",
    "POTC": "#7788dd",
    "ON_GREEDY": "#33cc99",
    "OFF_GREEDY": "#8877ee",
    "D_CHOICES": "#56b4e9",
    "W_CHOICES": "#77aacc",
    "HOLISTIC": "#99ccee",
    "PORC": "#446644",
    # dynamic
    "DYNAMIC_KEY": "#cc79a7",
    "DYNAMIC_KEY_DECAY": "#bb5599",
    # routing table over a hash
    "LLFD": "#7722dd",
    "MINTABLE": "#992277",
    "MINMIG": "#993399",
    "MIXED": "#7755dd",
    "MIXED_BF": "#bb3377",
    "READJ": "#5555bb",
    # execution-time sketches, ring
    "POSG": "#ccbb66",
    "CONSISTENT_HASH": "#775522",
    # learned
    "DALTON": "#aa8844",
}

#: Groupings of one kind, which dashboards show in the colour of the first: Grafana needs a rule for each colour on each
#: panel. The others are schemes of papers, kept for comparison with it. Plots and terminal show each in its own colour.
FAMILIES: tuple[tuple[str, ...], ...] = (
    ("SHUFFLE", "FULL_KNOWLEDGE"),
    ("KEY",),
    ("BOUNDED_LOAD",),
    ("PLANNED",),
    ("PARTIAL_KEY", "POTC", "ON_GREEDY", "OFF_GREEDY"),
    ("D_CHOICES", "W_CHOICES", "HOLISTIC", "PORC"),
    ("DYNAMIC_KEY", "DYNAMIC_KEY_DECAY"),
    ("MIXED", "LLFD", "MINTABLE", "MINMIG", "MIXED_BF", "READJ"),
    ("POSG", "DALTON"),
    ("CONSISTENT_HASH",),
)

_OTHER = "#595959"


def get_colour(grouping: str) -> str:
    """The hex colour of a groupingType; a neutral one for a scheme that has none of its own."""
    return COLOURS.get(grouping, _OTHER)
