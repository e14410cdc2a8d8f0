"""The groupings' colours: a reader tells them apart, also one who is colour-blind.

A colour-blind reader's colours are simulated by the matrices of Machado, Oliveira and Fernandes (IEEE TVCG 15(6), 2009,
Table 2, severity 1). Distances are those of CIE 1976, in L*a*b*.
"""

from itertools import combinations

import numpy as np

from unskew.grouping.registry import COLOURS, FAMILIES

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


def test_colours_are_told_apart_and_are_read_on_white_and_on_black():
    wrong = [grouping for grouping, colour in COLOURS.items() if not is_read(colour)]
    wrong += [pair for pair in combinations(COLOURS, 2) if is_near(*(COLOURS[each] for each in pair), 10)]
    wrong += [pair for pair in combinations(FIRST, 2) if is_near(*(COLOURS[each] for each in pair), 15)]
    assert not wrong, f"in grouping/registry.py; free colours: {', '.join(find_free())}"


def is_read(colour):
    return 35 < lab(colour)[0] < 82


def is_near(one, other, distance):
    return any(np.linalg.norm(lab(one, reader) - lab(other, reader)) < distance for reader in READERS)


def find_free():
    """Colours that no grouping's is near."""
    levels = range(0, 256, 34)
    grid = (f"#{red:02x}{green:02x}{blue:02x}" for red in levels for green in levels for blue in levels)
    return [each for each in grid if is_read(each) and not any(is_near(each, other, 10) for other in COLOURS.values())]
