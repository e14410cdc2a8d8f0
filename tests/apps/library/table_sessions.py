"""Programs of their own, with a Spark that has a format of tables."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from subprocess import run

import pyspark
import pytest

from evidence.table_formats import fetch_archives, make_settings
from tests.commands import with_spark
from tests.wheel.environments import build
from tests.wheel.installed import Installed
from unskew.errors import EnvironmentFault

#: Format → the Spark that most tests have for it. (There is no Iceberg for Spark 4.2.)
SPARKS = {"parquet": pyspark.__version__, "delta": pyspark.__version__, "iceberg": "4.0.4"}


@dataclass(frozen=True)
class TableSession:
    """How a program is started."""

    kind: str  #: The format.
    python: Path  #: Its Python, which has the Spark.
    environment: dict[str, str]  #: Its variables.
    jars: list[Path]  #: The format's archives.

    @classmethod
    def of(cls, kind: str, spark: str, folder: Path) -> "TableSession":
        """Find or make the environment. The test is skipped where the archives can't be had.

        ``folder``: Of the wheel, where another Spark than the installed one is wanted.
        """
        try:
            jars = [] if kind == "parquet" else fetch_archives(kind, spark)
        except EnvironmentFault as fault:
            pytest.skip(f"{kind} for Spark {spark} can't be had: {fault}")
        if spark == pyspark.__version__:
            return cls(kind, Path(sys.executable), with_spark(), jars)
        installed = Installed.of(spark, build(folder))
        return cls(kind, installed.folder / "bin" / "python", installed.environment(), jars)

    def command(self, program: str | None, folder: Path, *more: str) -> list[str | Path]:
        """The command of a program, which gets the format, a folder, the session's settings as JSON, and more."""
        settings = dict(make_settings(self.kind, self.jars, folder / "warehouse"))
        return [self.python, "-P", str(program), self.kind, str(folder), json.dumps(settings), *more]

    def run(self, program: str | None, folder: Path, *more: str) -> str:
        """Run a program to its end: what it prints."""
        command = self.command(program, folder, *more)
        done = run(command, cwd=folder, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3_000:]
        return done.stdout
