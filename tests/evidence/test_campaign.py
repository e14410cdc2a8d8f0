"""Small campaigns, of a few kinds of faults: what is written is exact, and a topic made again is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from evidence.faults.contestants import CONTESTANTS, Contestant, Session, Topology
from evidence.faults.course import Course
from evidence.faults.faults import KINDS

pytestmark = [
    pytest.mark.nightly(group="evidence"),
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.timeout(3000),
]


def campaign(contestant: Contestant, kinds: tuple[str, ...], folder: Path) -> Course:
    """One round of these kinds of faults, under a contestant."""
    seed = CONTESTANTS.index(contestant)
    command = [sys.executable, "-m", "evidence.faults", "--rounds", "1", "--seed", str(seed), "--rate", "100"]
    left_out = [kind for kind in KINDS if kind not in kinds]
    done = subprocess.run(
        [*command, "--output", folder, "--without", *left_out], capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    return Course.load(folder / str(seed))


@pytest.mark.takes(240)
@pytest.mark.parametrize(
    ("contestant", "kinds"),
    [
        (Topology("BOUNDED_LOAD", "batch"), ("transactions", "largest", "remade")),
        (Session("keyed_map", "D_CHOICES"), ("transactions", "second", "python")),
    ],
    ids=["topology", "session"],
)
def test_nothing_is_lost_doubled_or_stuck(tmp_path, contestant, kinds):
    course = campaign(contestant, kinds, tmp_path)
    assert course.inflicted == {kind: KINDS[kind].times for kind in kinds}
    verdict = course.verdict
    assert (verdict.lost, verdict.doubled, course.stuck, course.twins, course.unrefused) == (0, 0, [], 0, 0)
    assert verdict.exact
    assert verdict.tuples
    assert len(course.refusals) == kinds.count("remade")
