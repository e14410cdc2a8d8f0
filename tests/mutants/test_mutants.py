"""Each mutant can still be made of this tree, and names tests that there are; `python -m tests.mutants` runs them."""

import re
import subprocess

import pytest

from tests.mutants.table import ROOT, killers, meaning, patches

PATCHES = patches()


def test_each_mutant_has_killers_and_each_killer_a_mutant():
    assert PATCHES
    assert killers().keys() == PATCHES.keys()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git checkout")
@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_applies(name):
    command = ["git", "-C", str(ROOT), "apply", "--check", str(PATCHES[name])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"make it anew: {done.stderr}"


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_says_what_is_wrong(name):
    said = meaning(PATCHES[name])
    assert said.endswith(".")
    assert ": " in said, "which room, and what is wrong"
    assert "tests/" not in "".join(re.findall(r"^\+\+\+ b/(.*)$", PATCHES[name].read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", PATCHES)
def test_the_tests_that_kill_it_exist(name):
    tests = killers()[name]
    assert tests
    for test in tests:
        file, _, function = test.partition("::")
        source = (ROOT / file).read_text()
        defined = re.search(rf"^def {re.escape(function.partition('[')[0])}\(", source, re.MULTILINE)
        assert defined, f"{test} is no test"
