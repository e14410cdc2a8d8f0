"""`unskew` as its user meets it: in this process, or as one of its own where that is the point."""

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess, run
from unittest.mock import patch

from unskew.apps.cli.main import main
from unskew.deploy.installation.machine import find_java

#: The command as a process of its own. It takes seconds to import what it needs: for what is killed, or interrupted.
UNSKEW = [sys.executable, "-c", "from unskew.apps.cli.main import main; main()"]


def unskew(*arguments: object, **environment: str) -> CompletedProcess[str]:
    """Run the command in this process: what it prints, and the code it ends with."""
    given = list(map(str, arguments))
    out, err = io.StringIO(), io.StringIO()
    wide = {"COLUMNS": "200", **environment}
    with (
        patch.object(sys, "argv", ["unskew", *given]),
        patch.dict(os.environ, wide),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = _ended()
    return CompletedProcess(given, code, out.getvalue(), err.getvalue())


def _ended() -> int:
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def with_spark(**more: str) -> dict[str, str]:
    """The variables of a program of its own that starts Spark."""
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java().home), **more}


def printed_by(program: str, folder: Path, *arguments: object, **more: str) -> list[str]:
    """The lines that a user's program prints, which starts Spark."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, folder / "program.py", *map(str, arguments)]
    done = run(command, cwd=folder, env=with_spark(**more), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout.splitlines()
