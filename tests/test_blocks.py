"""The pages' blocks of code are run as a reader would paste them, and print what the pages show.

A page's blocks run one after the other in a directory of their own, with the project's environment activated. Numbers,
times and the lengths of bars may differ from what a page shows; words may not. ``…`` on a line of its own stands for
lines that the page leaves out.
"""

import re
from dataclasses import replace

import orjson
import pytest

from tests.pages import PAGES, Block, blocks, logical
from tests.reader import Shell, place, shell  # noqa: F401

#: Commands that aren't run here, and why; a page must say of a placeholder what to put in its place.
NOT_RUN = {
    r"make |git clone|pip install|.*-m tests\.programs": "sets up, or runs the tests; .ci/run does it in a clean clone",
    r"docker |kubectl ": "needs a registry and a cluster; tests/apps/driver/test_kubernetes.py",
    r"python -m evidence\b": "takes minutes to hours; test_docs.py holds names and options",
    r"unskew simulate .*--tuples 2000000": "takes minutes; tests/apps/cli/simulation/test_command.py",
    r"unskew diagnose": "needs an application of the reader's; tests/apps/diagnosis",
    r"unskew compare": "takes minutes; tests/apps/cli/comparison/test_compare.py",
    r"unskew topology (?!.*--until)": "runs until Ctrl-C; tests/apps/cli/test_launch.py",
    r".*--loop|.*--speedup": "runs for ever, or for minutes; tests/producers",
    r".*\.(gz|parquet|csv)\b": "needs a file of the reader's; tests/producers, tests/apps/cli/simulation",
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
    marks += [] if name == "README.md" else [pytest.mark.nightly(group="documents")]
    return pytest.param(name, marks=[*marks, pytest.mark.slow, pytest.mark.takes(60 if spark else 10)])


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
