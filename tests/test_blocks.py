"""The pages' blocks of code are run as a reader would paste them, and print what the pages show.

A page's blocks run one after the other in a directory of their own, with the project's environment activated. Numbers,
times and the lengths of bars may differ from what a page shows; words may not. ``…`` on a line of its own stands for
lines that the page leaves out.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from tests.pages import PAGES, ROOT, Block, blocks, logical
from unskew.deploy.directories import data_directory

#: Commands that aren't run here, and why; a page must say of a placeholder what to put in its place.
NOT_RUN = {
    r"make |git clone|pip install|.*-m tests\.programs": "sets up, or runs the tests; .ci/run does it in a clean clone",
    r"docker |kubectl ": "needs a registry and a cluster; tests/apps/run/test_kubernetes.py",
    r"python -m benchmarks": "takes minutes to hours; test_docs.py holds names and options",
    r"unskew (reproduce|compare)": "takes minutes; tests/apps/reproduce, tests/apps/compare/test_compare.py",
    r"unskew topology (?!.*(--until-drained|--run-time))": "runs until Ctrl-C; tests/apps/commandline/test_launch.py",
    r".*--loop|.*--speedup": "runs for ever, or for minutes; tests/producers",
    r".*\.(gz|parquet|csv)\b": "needs a file of the reader's; tests/producers, tests/apps/whatif",
    r".*(…|s3a://|hdfs://|HADOOP_|AWS_)": "needs a store or a cluster; tests/apps/stores",
    r"unskew (stack|dashboards)": "needs InfluxDB; tests/deploy, tests/dashboards",
}
#: What a page's blocks need that its reader is told to have.
_BROKER = re.compile(r"unskew (produce|topology|compare|results)|KAFKA_BOOTSTRAP_SERVERS|examples/balanced")


def steps(name: str) -> list[Block]:
    """The blocks of a page that are run: shell code without the lines that ``NOT_RUN`` names, and Python."""
    found = []
    for block in blocks(name):
        if block.language == "sh":
            kept = [line for line in logical(block.code) if not any(re.match(rule, line) for rule in NOT_RUN)]
            if kept:
                found.append(replace(block, code="\n".join(kept)))
        elif block.language == "python":
            found.append(block)
    return found


def marked(name: str) -> object:
    """A page as a parameter: README's blocks are a kind of their own, those of the other pages the second tier."""
    spark = any(re.search(r"SparkSession|unskew (topology|compare)", step.code) for step in steps(name))
    marks = [pytest.mark.xdist_group(f"blocks of {name}"), *([pytest.mark.spark] if spark else [])]
    marks += [] if name == "README.md" else [pytest.mark.full]
    return pytest.param(name, marks=[*marks, pytest.mark.slow, pytest.mark.takes(60 if spark else 10)])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A reader's directory: with the environment and what ``make setup`` fetched, and nothing else."""
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    home = tmp_path / ".unskew"
    home.mkdir()
    for there in data_directory().iterdir():
        if there.name in {"jars", "class-data"} or there.name.startswith("python-"):
            (home / there.name).symlink_to(there)
    return tmp_path


@pytest.fixture
def shell(place: Path) -> Iterator["Shell"]:
    """A reader's shell; a broker that a block has started is stopped at the end."""
    shell = Shell(place)
    yield shell
    if (place / ".unskew" / "kafka").exists():
        shell.run("unskew kafka stop")


class Shell:
    """Runs code as a reader's shell does in which ``source .venv/bin/activate`` was done."""

    def __init__(self, place: Path) -> None:
        self._place = place
        away = {"KAFKA_BOOTSTRAP_SERVERS", "PYSPARK_PYTHON"}
        self.variables = {name: value for name, value in os.environ.items() if name not in away}
        self.variables["PATH"] = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{self.variables['PATH']}"
        self.variables |= {"UNSKEW_HOME": str(place / ".unskew"), "COLUMNS": "100"}  # tables as wide as a terminal

    def run(self, code: str, language: str = "sh") -> str:
        """What the code prints; it must end with exit code 0."""
        given = ["bash", "-euo", "pipefail", "-c", code] if language == "sh" else ["python", "-c", code]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(given, cwd=self._place, env=self.variables, timeout=400, check=False, **output)
        assert done.returncode == 0, f"{code}\n{done.stdout[-10_000:]}"
        return done.stdout

    def start_kafka(self) -> None:
        """Start a broker, and tell other clients of it, as the command says how."""
        found = re.search(r"export (\w+)=(\S+)", self.run("unskew kafka start"))
        assert found
        self.variables[found[1]] = found[2]


@pytest.mark.parametrize("name", [marked(name) for name in PAGES if steps(name)])
def test_blocks(name, place, shell):
    run = steps(name)
    code = "\n".join(step.code for step in run)
    if _BROKER.search(code) and not re.search(r"(?m)^unskew kafka start", code):
        shell.start_kafka()
    for step in run:
        if step.language == "python" and (file := re.search(r"^# (\w+\.py)$", step.code, re.MULTILINE)):
            (place / file[1]).write_text(step.code)  # the page says: put this in a file
        printed = shell.run(step.code, step.language)
        missing = lacking(step.output or "", printed)
        assert not missing, f"{step}: the page shows this, which isn't printed:\n{missing}\n\nprinted:\n{printed}"
    shown = [block for block in blocks(name) if block.language == "json"]
    shapes = published(shell) if shown else []
    assert [block for block in shown if shape(orjson.loads(block.code)) not in shapes] == []


def test_each_exception_is_needed():
    lines = [line for name in PAGES for block in blocks(name) if block.language == "sh" for line in logical(block.code)]
    assert [rule for rule in NOT_RUN if not any(re.match(rule, line) for line in lines)] == []


def lacking(shown: str, printed: str) -> str:
    """The first line shown that isn't among what was printed, in this order; empty: all are there."""
    there = iter(map(plain, printed.splitlines()))
    wanted = [line for line in map(plain, shown.splitlines()) if line not in {"", "…"}]
    return next((line for line in wanted if line not in there), "")


def plain(line: str) -> str:
    """A line without what differs from run to run: numbers, bars, frames, the width of columns."""
    line = re.sub(r"[█▉▊▋▌▍▎▏]+", "█", re.sub(r"[│┃|─━┏┓┗┛┌┐└┘├┤┼╇┡┩┳┻┬┴]", " ", line))
    return " ".join(re.sub(r"[\d.,:T-]*\d[\d.,:T-]*", "#", line).split())


def shape(value: object) -> object:
    """A record without its values: the names and types of its fields."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return type(value)


def published(shell: Shell) -> list[object]:
    """The shapes of all records in the result topics."""
    topics = re.findall(r"\S+-(?:aggregator|distribution|results|rejected)\b", shell.run("unskew results"))
    found: list[object] = []
    for topic in topics:
        windows = "" if topic.endswith("-rejected") else "--window all"  # rejected messages belong to none
        for line in shell.run(f"unskew results {topic} --json {windows}").splitlines():
            if line.startswith("{") and (one := shape(orjson.loads(line))) not in found:
                found.append(one)
    return found
