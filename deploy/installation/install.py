"""`make setup`: installs whatever is missing of the environment, pinned packages, JVM jars and class archives.

It also compiles the groupings that `simulate` tries by default.

The user's Python runs it, as `python -m unskew.deploy.installation.install`, so it imports only the standard library.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from unskew.deploy.installation import class_data
from unskew.deploy.installation.jars import connector_jars, has_all_jars
from unskew.deploy.installation.machine import find_java, require_disk, require_python
from unskew.errors import EnvironmentFault, UserError

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv"
_START = time.monotonic()
_SILENT = 20.0  # s
_DESCRIPTIONS = ("requirements.lock", "pyproject.toml")


def install_missing() -> None:
    """Execute the missing steps, and print a line before each.

    Raises ``EnvironmentFault`` if the Python version is wrong, or Java, disk space or the network is missing.
    """
    require_python()
    stamp = ENVIRONMENT / "installed"
    wanted = hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in _DESCRIPTIONS)).hexdigest()
    current = stamp.is_file() and stamp.read_text() == wanted
    if not (current and has_all_jars()):
        find_java()  # before minutes of downloads, not after
    if not current:
        require_disk(ROOT)
        if not _python_runs(ENVIRONMENT / "bin" / "python", "import pip"):
            _make_environment()
        _announce_step("installing the pinned Python packages (1.7 GB; a minute or more the first time) ...")
        _install_packages()
        shutil.rmtree(class_data.archives_directory(), ignore_errors=True)  # of the previous jars
        stamp.write_text(wanted)
    _compile_sources(*(package.resolve() for package in (ROOT / "src" / "unskew").iterdir()))
    python = ENVIRONMENT / "bin" / "python"  # unlike the user's, has pyspark
    if not has_all_jars():
        _run_step("JVM jars", python, "-m", "unskew.deploy.installation.install", "jars")
    if class_data.has_missing_archive():
        _announce_step("recording which classes Spark and Kafka load, and compiling the groupings, once (a minute) ...")
        unskew = ENVIRONMENT / "bin" / "unskew"
        with subprocess.Popen(
            [unskew, "simulate", "--tuples", "10000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ):
            recorded = _command_succeeds(python, "-m", "unskew.apps.driver.class_data_archive")
        if not recorded:
            _announce_step(
                "that failed: all works, but starts as slowly as Spark does by itself; `make setup` tries again"
            )


def _make_environment() -> None:
    _announce_step(f"making {ENVIRONMENT} with {sys.executable} ...")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)  # an interruption may have left one
    done = subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        if "ensurepip" in done.stdout + done.stderr:
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            fix = f"sudo apt-get install python{version}-venv"
            raise EnvironmentFault(f"{sys.executable} can't make virtual environments; install what it lacks: `{fix}`")
        output = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise EnvironmentFault(f"{sys.executable} -m venv failed: {output[-1]}")


def _install_packages() -> None:
    """Install the pinned packages, and the project as a link to this checkout.

    uv takes a third of pip's time. pip is the fallback, because uv doesn't read pip's settings of indexes and proxies,
    and isn't available for every platform. The pins are complete, so uv gets `--no-deps`. Otherwise it would build
    pyspark (a gigabyte) twice, to read its dependencies and to install it, instead of using an earlier build.
    """
    python, pinned = ENVIRONMENT / "bin" / "python", ROOT / "requirements.lock"
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "install")
    uv = (ENVIRONMENT / "bin" / "uv", "pip", "install", "--quiet", "--no-deps", "--python", python)
    [wanted] = re.findall(r"^uv==\S+", pinned.read_text(), re.MULTILINE)
    if not (
        _command_succeeds(*pip, wanted)
        and _command_succeeds(*uv, "--require-hashes", "--requirement", pinned, told=_describe_packages)
    ):
        _announce_step("uv can't install them, pip does ...")
        _run_step("packages", *pip, "--require-hashes", "--requirement", pinned)
    _run_step("packages", *pip, "--no-deps", "--editable", ROOT)
    _compile_sources(ENVIRONMENT / "lib")


def _compile_sources(*sources: Path) -> None:
    """Compile each source to the bytecode file that Python would write at the first import.

    uv doesn't compile. If Python must not write these files (PYTHONDONTWRITEBYTECODE, as in many containers), each
    process would compile its imports: three seconds for each driver, and as many for its Python workers.
    """
    # It fails if a source is for another Python.
    _command_succeeds(ENVIRONMENT / "bin" / "python", "-m", "compileall", "-q", "-j", "0", *sources)


def _command_succeeds(*command: str | Path, told: Callable[[], str] = str) -> bool:
    """Whether a silent command succeeds. While it runs, a line shows its progress."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        while True:
            try:
                return program.wait(_SILENT) == 0
            except subprocess.TimeoutExpired:
                _announce_step(f"... still at it{told()}")
            except BaseException:  # an interrupted user shouldn't wait for the rest
                program.kill()
                raise


def _describe_packages() -> str:
    """The number of pinned packages installed. (A few are for other platforms.)"""
    wanted = len(re.findall(r"^[\w.-]+==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    there = sum(1 for _ in ENVIRONMENT.glob("lib/python*/site-packages/*.dist-info"))
    return f": {there} of about {wanted} packages are installed"


def _run_step(what: str, *command: str | Path) -> None:
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise EnvironmentFault(f"could not install the {what}, see above; mend that and run `make setup` again")


def _python_runs(python: Path, code: str) -> bool:
    return python.exists() and subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def _announce_step(step: str) -> None:
    print(f"[{time.monotonic() - _START:3.0f} s] {step}", flush=True)


def main() -> None:
    """Run the whole set-up, or only the step that needs the environment's Python."""
    try:
        if sys.argv[1:] == ["jars"]:
            connector_jars()
        else:
            install_missing()
            if "setup" in sys.argv[1:] or time.monotonic() - _START > _SILENT:
                _announce_step("ready; next: source .venv/bin/activate, unskew doctor")
    except UserError as error:
        print(f"unskew: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("\nunskew: interrupted; `make setup` goes on where this stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
