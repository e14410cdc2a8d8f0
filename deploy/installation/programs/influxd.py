"""`influxd`, the program of InfluxDB 2."""

import os
import shutil
from pathlib import Path

from unskew.deploy.installation.programs.influxd_build import built, cached, is_version_2
from unskew.errors import EnvironmentFault


def influxd() -> Path:
    """Its path: the one that is `present`, else one that is copied from an image or built now, once.

    Raises
    ------
    EnvironmentFault
        If what `$UNSKEW_INFLUXD` names is no InfluxDB 2, or there is none and it can't be had.
    """
    return present() or built()


def present() -> Path | None:
    """`$UNSKEW_INFLUXD`, else the PATH's if that is InfluxDB 2, else the one in the user's cache; None: there is none.

    Raises
    ------
    EnvironmentFault
        If what the variable names is no InfluxDB 2.
    """
    if named := os.environ.get("UNSKEW_INFLUXD"):
        path = Path(named).expanduser().absolute()
        if not is_version_2(path):
            raise EnvironmentFault(f"UNSKEW_INFLUXD names {path}, which is no influxd of InfluxDB 2")
        return path
    on_path = shutil.which("influxd")
    if on_path and is_version_2(Path(on_path)):
        return Path(on_path)
    return cached() if cached().is_file() else None
