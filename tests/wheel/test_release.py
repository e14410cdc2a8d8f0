"""What an index shows of a release, and what the repository's page shows beside it."""

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_string
from email.message import Message

import pytest
import yaml

from tests.wheel.environments import ROOT, uv

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def described(wheel) -> Message:
    """The wheel's metadata."""
    packed = zipfile.ZipFile(wheel)
    [name] = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_string(packed.read(name).decode())


def test_the_long_description_is_the_readme_with_absolute_links(described):
    text = described.get_payload()
    assert described["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    there = re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text())
    assert len(links) == len(there) > 20
    files = rf"{re.escape(_PROJECT['urls']['Source'])}/(blob|raw)/v{re.escape(_PROJECT['version'])}/([^#]+)(#.+)?"
    for link in links:
        led = re.fullmatch(files, link)
        assert led, f"{link} leads nowhere from an index's page"
        assert (ROOT / led[2]).exists()
        assert (led[1] == "raw") == link.endswith((".png", ".svg"))


def test_an_index_takes_it(wheel):
    pytest.importorskip("twine", reason="twine is not installed; `make setup` does it")
    files = [wheel, *wheel.parent.glob("*.tar.gz")]
    assert len(files) == 2
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_classifiers_name_the_pythons_that_set_up_takes(described):
    bounds = re.search(r"not \((.*?)\) <= sys\.version_info\[:2\] <= \((.*?)\)", (ROOT / "Makefile").read_text())
    assert bounds
    oldest, newest = (int(bound.partition(", ")[2]) for bound in bounds.groups())
    named = [each.rpartition(" :: ")[2] for each in described.get_all("Classifier", []) if " :: 3." in each]
    assert named == [f"3.{minor}" for minor in range(oldest, newest + 1)]
    assert described["Requires-Python"] == f">={named[0]}"


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (_PROJECT["version"], _PROJECT["license"])
    assert [author["name"] for author in cited["authors"]] == [author["name"] for author in _PROJECT["authors"]]


def test_the_citation_holds_to_its_schema(tmp_path):
    # cffconvert asks for an old jsonschema: uv gives it an environment of its own.
    tool = ("tool", "run", "--quiet", "--from", "cffconvert==2.0.0", "cffconvert")
    done = uv(*tool, "--validate", "--infile", ROOT / "CITATION.cff", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "valid" in done.stdout
