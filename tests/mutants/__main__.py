"""`python -m tests.mutants`: make each mutant in a worktree of its own, and run the tests that are to kill it."""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.table import ROOT, killers, meaning, patches
from unskew.grouping.kernel_cache import cache_home

_DESCRIPTION = """\
A mutant is a small wrong change of the product (tests/mutants/NAME.patch). Each is applied to a scratch worktree of
HEAD, in which the tests run that killers.toml names for it, one after the other, until one fails. What isn't committed
is not in the worktree, but for the patches and killers.toml themselves.

A mutant is KILLED if a test fails, and has SURVIVED if all pass. It is BROKEN if that can't be told: its patch doesn't
apply, no test has run (because of -m, or of skips), or tests couldn't begin (an error of a fixture, of the import, or
of the command line). The exit code is 1 unless all are killed.
"""
_FAILED = re.compile(r"^(FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_PASSED = re.compile(r"^PASSED ", re.MULTILINE)
_KILLED, _SURVIVED, _BROKEN = "KILLED", "SURVIVED", "BROKEN"
_ENDING = 60.0  # s, in which an interrupted pytest stops its servers
_LINES = 20  # of the output of tests that could not be run


@dataclass(frozen=True)
class Verdict:
    """What came of a mutant: one of the three words, the test or the reason, and how long it took."""

    mutant: str
    word: str
    why: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        """A row."""
        return f"{self.mutant:30}  {self.word:8}  {self.seconds:5.0f} s  {self.why}".rstrip()


def main() -> int:
    """Run what the command line says; the exit code."""
    arguments = _arguments()
    there, tests = patches(), killers()
    names = arguments.names or list(there)
    if unknown := [name for name in names if name not in there]:
        print(f"there is no mutant {', '.join(unknown)}; valid: {', '.join(there)}", file=sys.stderr)
        return 2
    if arguments.list:
        for name in names:
            print(f"{name}: {meaning(there[name])}", *tests.get(name, ["(no test is named)"]), sep="\n    ")
        return 0
    if arguments.baseline:
        # Each test once, in the order of the mutants.
        every = list(dict.fromkeys(test for name in names for test in tests.get(name, [])))
        found = _tried("(no mutant)", None, every, arguments)
        print(found, flush=True)
        if found.word != _SURVIVED:
            print("the tests don't pass without a mutant, so that they prove nothing", file=sys.stderr)
            return 1
    verdicts = []
    for number, name in enumerate(names, 1):
        _say(f"{number} of {len(names)}: {name}: {meaning(there[name])}")
        verdicts.append(_tried(name, there[name], tests.get(name, []), arguments))
        _say(f"{number} of {len(names)}: {verdicts[-1]}")
    print(*verdicts, sep="\n")
    counts = {word: sum(verdict.word == word for verdict in verdicts) for word in (_KILLED, _SURVIVED, _BROKEN)}
    print(", ".join(f"{count} {word.lower()}" for word, count in counts.items()))
    return int(counts[_KILLED] < len(verdicts))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant (default: all)")
    parser.add_argument("--list", action="store_true", help="print the mutants, and the tests that are to kill them")
    parser.add_argument("-m", dest="marks", default="", metavar="MARKEXPR", help='such as "not nightly": as for pytest')
    parser.add_argument(
        "--baseline", action=argparse.BooleanOptionalAction, default=False, help="first run the tests without a mutant"
    )
    parser.add_argument(
        "--limit", type=float, default=3600.0, metavar="SECONDS", help="how long the tests of a mutant may take (3600)"
    )
    return parser.parse_args()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _tried(name: str, patch: Path | None, tests: list[str], arguments: argparse.Namespace) -> Verdict:
    """Make a mutant (None: HEAD as it is), and run these tests in it."""
    started = time.monotonic()
    try:
        word, why = _judged(patch, tests, arguments)
    except Broken as broken:
        word, why = _BROKEN, str(broken)
    return Verdict(name, word, why, time.monotonic() - started)


class Broken(Exception):
    """Whether the tests kill the mutant can't be told."""


def _judged(patch: Path | None, tests: list[str], arguments: argparse.Namespace) -> tuple[str, str]:
    """Whether these tests kill the mutant, and the first that does.

    Raises ``Broken`` if it can't be told.
    """
    if not tests:
        raise Broken("killers.toml names no test")
    with _worktree() as folder:
        if patch is not None:
            applied = _git(folder, "apply", str(patch))
            if applied.returncode:
                raise Broken(f"its patch doesn't apply: {applied.stderr.strip().splitlines()[0]}")
        environment = _environment(folder)
        _require_import(folder, environment)
        output, code = _run(folder, environment, tests, arguments)
    bad = _FAILED.findall(output)
    failed = [test for kind, test in bad if kind == "FAILED"]
    if code == 1 and failed:
        return _KILLED, failed[0]
    if code == 0 and _PASSED.search(output):
        return _SURVIVED, ""
    _say("\n".join(output.splitlines()[-_LINES:]))
    if code is None:
        raise Broken(f"its tests took longer than {arguments.limit:g} s")
    if bad:
        raise Broken(f"{bad[0][1]} could not be run")
    raise Broken("no test has run" if code in (0, 5) else f"pytest ended with exit code {code}")


@contextmanager
def _worktree() -> Iterator[Path]:
    """A scratch worktree of HEAD."""
    with tempfile.TemporaryDirectory(prefix="unskew-mutant-", ignore_cleanup_errors=True) as above:
        folder = Path(above) / "tree"
        made = _git(ROOT, "worktree", "add", "--detach", str(folder), "HEAD")
        if made.returncode:
            raise SystemExit(made.stderr.strip())
        try:
            yield folder
        finally:
            _git(ROOT, "worktree", "remove", "--force", str(folder))


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)


def _environment(folder: Path) -> dict[str, str]:
    """The environment in which the worktree's product is imported. All that can be shared is this checkout's."""
    common = Path(_git(ROOT, "rev-parse", "--path-format=absolute", "--git-common-dir").stdout.strip())
    shared = {
        "UNSKEW_HOME": str(common.parent / ".unskew"),  # of the main checkout: jars, and what it has installed
        "NUMBA_CACHE_DIR": cache_home(),  # a kernel's folder is named after its source, so that a mutant has its own
    }
    return shared | os.environ | {"PYTHONPATH": str(folder / "src")}


def _require_import(folder: Path, environment: dict[str, str]) -> None:
    """Check that the product is imported from the worktree.

    Raises ``Broken`` if it isn't.
    """
    command = [sys.executable, "-c", "import unskew.apps; print(unskew.apps.__file__)"]
    found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise Broken(f"it can't be imported: {found.stderr.strip().splitlines()[-1]}")
    file = Path(found.stdout.strip()).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise Broken(f"another checkout's product is imported: {file}")


def _run(
    folder: Path, environment: dict[str, str], tests: list[str], arguments: argparse.Namespace
) -> tuple[str, int | None]:
    """The output of the tests, and pytest's exit code. None: they took too long."""
    marks = ["-m", arguments.marks] if arguments.marks else []
    command = [sys.executable, "-m", "pytest", "--numprocesses", "0", "-x", "-q", "-rfEp", "-p", "no:cacheprovider"]
    with tempfile.TemporaryFile("w+") as output:
        # In a session of its own, so that a Ctrl-C comes to it once, from here.
        process = subprocess.Popen(
            [*command, *marks, *tests],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = None
        try:
            code = process.wait(arguments.limit)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _end(process)
        output.seek(0)
        return output.read(), code


def _end(process: subprocess.Popen[bytes]) -> None:
    """End tests that still run: pytest first, which stops what it has started."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell may have us ignore the first
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
