"""The paper's worked example: two workers, six keys, absolute balance."""

import pytest

from tests.grouping.table.plain_table import Stream
from tests.grouping.table.table_cases import planned, records
from unskew.grouping.table import Llfd, MinTable

# d1 has keys of 7, 4 and 5, d2 of 2, 1 and 1; two are where they are by the routing table. Which ones only the drawing
# says, which isn't in our text of the paper: 5 and 2 are one choice of five with which all that the text says holds.
D1, D2 = 0, 1
FIGURE = Stream(
    cost=[7, 4, 5, 2, 1, 1],
    memory=[7, 4, 5, 2, 1, 1],
    current=[D1, D1, D1, D2, D2, D2],
    home=[D1, D1, D2, D1, D2, D2],
    workers=2,
)


def test_the_start():
    assert records(FIGURE).loads().tolist() == [16, 4]
    assert FIGURE.table(FIGURE.current) == 2


def test_llfd_on_the_left():
    """7 goes to d2, which gives up 2; 2 comes back and a 1 goes in its place: balance, and four entries."""
    destination = planned(Llfd(2, theta_max=0.0), FIGURE)
    assert destination == [D2, D1, D1, D2, D1, D2]
    assert FIGURE.loads(destination) == [10, 10]
    assert FIGURE.table(destination) == 4


def test_mintable_on_the_right():
    """5 and 2 go home, 7 stays and 4 goes in its place, a 1 comes for it: balance, and two entries."""
    destination = planned(MinTable(2, theta_max=0.0), FIGURE)
    assert destination == [D1, D2, D2, D1, D1, D2]
    assert FIGURE.loads(destination) == [10, 10]
    assert FIGURE.table(destination) == 2


@pytest.mark.parametrize("routed", [(1, 2), (1, 5), (2, 3), (2, 5), (3, 5)])
def test_tables_of_4_and_2(routed):
    """LLFD alone ends with four entries, MINTABLE with two, both at 10 and 10."""
    home = [1 - d if k in routed else d for k, d in enumerate(FIGURE.current)]
    stream = Stream(FIGURE.cost, FIGURE.memory, FIGURE.current, home, 2)
    for scheme, entries in ((Llfd(2, theta_max=0.0), 4), (MinTable(2, theta_max=0.0), 2)):
        destination = planned(scheme, stream)
        assert stream.loads(destination) == [10, 10]
        assert stream.table(destination) == entries


def test_gamma():
    """With w = 1 a key's state is its load: γ = 1 for all with β = 1; β = 0.5 prefers the key of 4 to that of 7."""
    keys = records(FIGURE)
    assert keys.gamma(1.0).tolist() == [1] * 6
    assert keys.gamma(0.5)[1] > keys.gamma(0.5)[0]
    assert keys.gamma(1.5)[1] < keys.gamma(1.5)[0]
