"""The groupings' colours: a reader tells them apart, also one who is colour-blind.

A colour-blind reader's colours are simulated by the matrices of Machado, Oliveira and Fernandes (IEEE TVCG 15(6), 2009,
Table 2, severity 1). Distances are those of CIE 1976, in L*a*b*.
"""

from itertools import combinations

import numpy as np
import pytest

from unskew.apps.metrics.colours import COLOURS, FAMILIES
from unskew.grouping import GROUPINGS

READERS = {
    "all colours": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
FIRST = [family[0] for family in FAMILIES]


def lab(colour, reader="all colours"):
    """L*a*b* of an sRGB hex colour, as a reader sees it."""
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(READERS[reader] @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ seen / to_xyz.sum(axis=1)
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("reader", READERS)
def test_colours_are_told_apart(reader):
    seen = {grouping: lab(colour, reader) for grouping, colour in COLOURS.items()}
    near = {pair for pair in combinations(COLOURS, 2) if np.linalg.norm(seen[pair[0]] - seen[pair[1]]) < 10}
    near |= {pair for pair in combinations(FIRST, 2) if np.linalg.norm(seen[pair[0]] - seen[pair[1]]) < 15}
    assert near == set()


def test_colours_are_read_on_white_and_on_black():
    assert {grouping: colour for grouping, colour in COLOURS.items() if not 35 < lab(colour)[0] < 82} == {}


def test_every_grouping_has_a_colour_and_a_family():
    assert COLOURS.keys() == GROUPINGS.keys()
    assert sorted(grouping for family in FAMILIES for grouping in family) == sorted(GROUPINGS)
