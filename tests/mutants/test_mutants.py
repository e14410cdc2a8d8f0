"""Each mutant can still be made of this tree, and names tests that there are; `python -m tests.mutants` runs them."""

import re
import subprocess

import pytest

from tests.mutants.table import ROOT, killers, patches


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git checkout")
def test_each_patch_applies(subtests):
    for name, patch in patches().items():
        with subtests.test(name):
            command = ["git", "-C", str(ROOT), "apply", "--check", str(patch)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"make it anew: {done.stderr}"


def test_each_mutant_names_tests_that_there_are(subtests):
    assert killers().keys() == patches().keys()
    for name, tests in killers().items():
        for test in tests:
            with subtests.test(f"{name}: {test}"):
                file, *_, function = test.split("[")[0].split("::")
                assert re.search(rf"^ *def {function}\(", (ROOT / file).read_text(), re.MULTILINE)
