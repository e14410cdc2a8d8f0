"""Environments with other versions of Spark, which uv makes once, and queries in them, which may be killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from packaging.requirements import Requirement

from tests.harness.query import kill_tree
from tests.waiting import PATIENCE, awaited
from tests.wheel.environments import ROOT, kept, requirements, uv
from unskew.deploy.installation.machine import find_java
from unskew.loopback import LOOPBACK

_ENVIRONMENTS = ROOT / ".unskew" / "matrix"
#: How a query reaches Spark: in its own process, through a Connect server there, or with the thin client alone.
MODES = ("classic", "connect", "client")
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True)
class Installed:
    """A version of Spark with the wheel beside it."""

    version: str  #: Spark's.
    folder: Path  #: The environment with all of Spark.
    thin: Path  #: The one with its client alone.
    lacks_client: str | None  #: Why there is no client of this version.

    @classmethod
    def of(cls, version: str, wheel: Path) -> "Installed":
        """Make the environments where they aren't there, and put the wheel in them. Not each version has a client."""
        folder, thin = _ENVIRONMENTS / version, _ENVIRONMENTS / f"{version}-client"
        refused = _install(folder, wheel, f"pyspark[connect]=={version}", built=_spark(version))
        assert refused is None, refused
        return cls(version, folder, thin, _install(thin, wheel, f"pyspark-client=={version}"))

    def topology(self, wheel: Path) -> Path:
        """The `unskew` of one more environment, with all that the topology needs, but for the pyspark that it pins."""
        folder = _ENVIRONMENTS / f"{self.version}-app"
        needed = [each for each in requirements(wheel, ("app",)) if Requirement(each).name not in ("pyspark", "unskew")]
        refused = _install(folder, wheel, f"pyspark=={self.version}", *needed, built=_spark(self.version))
        assert refused is None, refused
        return folder / "bin" / "unskew"

    @contextmanager
    def queries(self, mode: str, folder: Path, order: str, names: list[str]) -> Iterator["Queries"]:
        """Start queries of ``query.py``. At the end they are killed, if they still run."""
        with self._address(mode, folder) as address:
            python = (self.thin if mode == "client" else self.folder) / "bin" / "python"
            program = Path(__file__).with_name("query.py")
            with (folder / "query.log").open("ab") as log:
                command = [python, program, address, folder, order, *names]
                process = _started(command, folder, self.environment(), log.fileno())
            try:
                yield Queries(process, folder)
            finally:
                kill_tree(process)

    @contextmanager
    def _address(self, mode: str, folder: Path) -> Iterator[str]:
        if mode != "client":
            yield {"classic": "local[2,4]", "connect": "connect"}[mode]
            return
        log = folder / "server.log"
        begin = log.stat().st_size if log.exists() else 0
        conf = "spark.ui.enabled=false", "spark.connect.grpc.binding.port=0"
        options = ["--master", "local[2,4]", *(f"--conf={each}" for each in conf)]
        with log.open("ab") as output:
            command = [self.submit, "--class", _SERVER, *options, "spark-internal"]
            server = _started(command, folder, self.environment(), output.fileno())
        try:
            started = awaited(lambda: _port(log.read_text()[begin:]), "the Connect server")
            yield f"sc://{LOOPBACK}:{started}"
        finally:
            kill_tree(server)

    @property
    def submit(self) -> Path:
        """Its `spark-submit`."""
        return self.folder / "bin" / "spark-submit"

    def environment(self) -> dict[str, str]:
        """The variables of its programs."""
        programs = self.folder / "bin"
        own = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYSPARK_PYTHON": str(programs / "python")}
        return {**kept(), **own, "JAVA_HOME": str(find_java().home), "HOME": str(self.folder)}


@dataclass(frozen=True)
class Queries:
    """Queries that run."""

    process: subprocess.Popen[bytes]
    folder: Path

    def wait(self) -> None:
        """Wait until they have taken all files, or have noted why not."""
        code = self.process.wait(PATIENCE)
        assert code == 0, (self.folder / "query.log").read_text()[-3_000:]

    def go_on(self, name: str, batches: int) -> None:
        """Wait until one of them has written so many batches in all."""
        log = own(self.folder, name) / "out" / "_spark_metadata"

        def written() -> bool:
            assert self.process.poll() is None, (self.folder / "query.log").read_text()[-3_000:]
            assert not error_of(self.folder, name), error_of(self.folder, name)
            return log.exists() and len([*log.glob("[0-9]*")]) >= batches

        awaited(written, f"{name}: batch {batches}")

    def kill(self) -> None:
        """Kill them, and all that they have started, at once."""
        kill_tree(self.process)

    def kill_python_workers(self) -> int:
        """Kill the Python processes that Spark has at work on this machine now, in its own environment. How many?"""
        found = [
            process
            for process in psutil.process_iter(["cmdline", "environ"])
            if {"pyspark.daemon", "unskew.apps.driver.python_daemon"} & {*(process.info["cmdline"] or [])}
            and (process.info["environ"] or {}).get("MATRIX_FOLDER") == str(self.folder)
        ]
        workers = [process for process in found if process.parent() in found]
        for worker in workers:
            worker.kill()
        return len(workers)


def own(folder: Path, name: str) -> Path:
    """A query's own folder."""
    return folder / name.replace(":", "-")


def error_of(folder: Path, name: str) -> str:
    """The error that a query has noted, if any."""
    noted = own(folder, name) / "error"
    return noted.read_text() if noted.exists() else ""


def _port(text: str) -> str | None:
    _, found, rest = text.rpartition("Spark Connect server started at: ")
    return rest.split()[0].rpartition(":")[2] if found and "\n" in rest else None


def _started(
    command: list[str | Path], folder: Path, environment: dict[str, str], output: int
) -> subprocess.Popen[bytes]:
    named = environment | {"MATRIX_FOLDER": str(folder)}
    return subprocess.Popen(command, cwd=folder, env=named, stdout=output, stderr=output, start_new_session=True)


def _spark(version: str) -> Path:
    """Spark's wheel, built once: PyPI has its source alone, which uv may build for each environment anew."""
    folder = _ENVIRONMENTS / "wheels"
    name = f"pyspark-{version}-*.whl"
    if not any(folder.glob(name)):
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", f"pyspark=={version}"]
        done = subprocess.run([*command, "--wheel-dir", folder], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    [wheel] = folder.glob(name)
    return wheel


def _install(folder: Path, wheel: Path, *packages: str, built: Path | None = None) -> str | None:
    """Put the wheel and Spark in an environment. Returns why not, if they can't be had together."""
    python = folder / "bin" / "python"
    if not python.exists():
        uv("venv", "--quiet", "--python", sys.executable, folder)
        if built:  # not through uv's cache, which keeps the half gigabyte of each path anew
            refused = _uv("pip", "install", "--quiet", "--no-cache", "--no-deps", "--python", python, built)
            assert refused is None, refused
    # The wheel's version is always the same, so that uv would leave an older one there.
    return _uv("pip", "install", "--quiet", "--python", python, f"{wheel}[keyed,watch]", *packages) or _uv(
        "pip", "install", "--quiet", "--no-deps", "--reinstall", "--python", python, wheel
    )


def _uv(*arguments: str | Path) -> str | None:
    done = uv(*arguments)
    return done.stderr.strip() if done.returncode else None
