"""The image's entry point, as a pod's container runs it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DRIVER = ["driver", "--properties-file", "/opt/spark/conf/spark.properties"]
RUNNER = ["--class", "org.apache.spark.deploy.PythonRunner"]
#: The program runs in another folder.
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
#: The command of a container; its arguments follow.
ENTRYPOINT = [sys.executable, "-m", "unskew.deploy.kubernetes.entrypoint"]


def entrypoint(*given: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, with these variables besides those of this process."""
    return subprocess.run(
        [*ENTRYPOINT, *map(str, given)], capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
