"""Building `influxd` from the Go module proxy and crates.io: `go.mod` beside this file says what, this file how."""

import hashlib
import os
import re
import shutil
from pathlib import Path

from unskew.deploy.home import cache
from unskew.deploy.installation.exclusive import exclusive, workshop
from unskew.deploy.installation.requirements import require_disk
from unskew.deploy.installation.steps import Progress, followed
from unskew.errors import EnvironmentFault

_DESCRIPTION = Path(__file__).with_name("go.mod")
_MODULE = "github.com/influxdata/influxdb/v2"
_TAGS = "sqlite_foreign_keys,sqlite_json"
# A newer Rust warns of what Flux does, and Flux takes warnings for errors.
_LENIENT = '#!/bin/sh\nexec "$@" --cap-lints warn\n'
_PACKAGES = 1400  # that Go compiles, for the progress line only
_DISK_GB = 4  # Go's and cargo's caches


def built() -> Path:
    """The program in the user's cache; built first if it isn't there yet, which takes 5 to 10 minutes.

    Raises
    ------
    EnvironmentFault
        If Go, cargo or a C compiler is missing, or the build fails.
    """
    program = cached()
    directory = program.parent.parent
    if program.is_file():
        return program
    _require_tools()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        require_disk(directory, _DISK_GB)
        with exclusive(directory / "build.lock"):
            if not program.is_file():  # else another process was faster
                _build(program, directory / "build.log")
    except OSError as error:
        raise EnvironmentFault(f"cannot build InfluxDB in {directory}: {error}; XDG_CACHE_HOME moves it") from error
    return program


def cached() -> Path:
    """Where it is once it has been built."""
    # A directory per description: a new version of ours builds anew, and one that exists is complete.
    identity = hashlib.sha256(_DESCRIPTION.read_bytes() + _TAGS.encode()).hexdigest()[:12]
    return cache() / "influxd" / identity / "influxd"


def _build(program: Path, log: Path) -> None:
    log.unlink(missing_ok=True)
    with workshop(log.parent) as here:
        shutil.copy(_DESCRIPTION, here)
        result, pkg_config, wrapper = here / "result", here / "pkg-config", here / "rustc"
        wrapper.write_text(_LENIENT)
        wrapper.chmod(0o755)
        environment = {
            **os.environ,
            "GOFLAGS": "-mod=mod",  # go.sum is made as it goes, checked against Go's public one
            "CGO_ENABLED": "1",
            "PKG_CONFIG": str(pkg_config),  # builds Flux, which is Rust, when Go asks where that library is
            "RUSTUP_TOOLCHAIN": "stable",  # not the very version that Flux names
            "RUSTC_WORKSPACE_WRAPPER": str(wrapper),
        }
        version = _version()
        go_build = ("go", "build", "-v", "-trimpath", "-ldflags", f"-s -w -X main.version={version}")
        with Progress(f"building InfluxDB {version}, once", _PACKAGES, "5 to 10 minutes") as progress:
            for arguments in (
                ("-o", pkg_config, "github.com/influxdata/pkg-config"),
                ("-o", result / "influxd", "-tags", _TAGS, f"{_MODULE}/cmd/influxd"),
            ):
                command = (*go_build, *arguments)
                if followed(command, log, progress, _is_package, directory=here, environment=environment):
                    raise EnvironmentFault(_explain(log))
        result.rename(program.parent)


def _version() -> str:
    found = re.search(rf"{_MODULE} (v\S+)$", _DESCRIPTION.read_text(), re.MULTILINE)
    assert found
    return found[1]


def _is_package(line: str) -> bool:  # `go build -v` names each one that it compiles
    return " " not in line and "/" in line


def _explain(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    faults = [line for line in lines if re.search(r"(?i)\berror\b|dial tcp|no space left|requires go", line)]
    said = (faults or lines or ["go said nothing"])[0].strip()[:300]
    return (
        f"cannot build InfluxDB: {said} (log: {log}). Mend that and run the command again, or put an influxd of "
        "InfluxDB 2.7 on the PATH or name it in UNSKEW_INFLUXD"
    )


def _require_tools() -> None:
    compiler = os.environ.get("CC", "cc").split()[0]
    wanted = {"go": "Go 1.24 or later", "cargo": "Rust's cargo", compiler: "a C compiler"}
    if missing := [what for tool, what in wanted.items() if shutil.which(tool) is None]:
        raise EnvironmentFault(
            f"InfluxDB is not on this machine, and building it needs {' and '.join(missing)}: install that, "
            "or put an influxd of InfluxDB 2.7 on the PATH or name it in UNSKEW_INFLUXD"
        )
