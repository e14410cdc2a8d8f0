"""`influxd`, found or built.

Go builds it from the module proxy and crates.io: `go.mod` beside this file says what, this file how. Nothing lighter
answers what we ask: InfluxDB 1.8, which needs no Rust, has neither the buckets' API nor the setup with a token, and its
Flux is of 2020; Debian's package is a 1.6 without Flux.
"""

import os
import shutil
import subprocess
from pathlib import Path

from unskew.deploy.installation.machine import require_disk
from unskew.deploy.installation.steps import ProgressBar, exclusive_lock, run_with_progress, temporary_workspace
from unskew.deploy.servers.influxdb import VERSION, find_influxd, influxd_cache_path
from unskew.directories import cache_directory
from unskew.errors import EnvironmentFault

_DESCRIPTION = Path(__file__).with_name("go.mod")
_MODULE = "github.com/influxdata/influxdb/v2"
_FLUX = "github.com/influxdata/flux"
# `fipsonly` is Flux's own tag that leaves out its clients of Snowflake and SQL Server, 145 packages.
_TAGS = "sqlite_foreign_keys,sqlite_json,fipsonly"
# The program is for tests and for trying out, so the compilers do as little as they can. InfluxData's own settings take
# three times as long.
_CHEAP = {
    "CGO_CFLAGS": "-O0",
    "GOGC": "400",  # for the compiler's own garbage; it stays below 1 GB
    "CARGO_INCREMENTAL": "0",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    # Alike for what runs in the build and what is built, so that both use the same libraries.
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_BUILD_OVERRIDE_CODEGEN_UNITS": "16",
    # A newer Rust warns of what Flux does, and Flux takes warnings for errors.
    "RUSTFLAGS": "--cap-lints warn",
}
_CHEAP_GO = "all=-N -l -dwarf=false"
# What Go asks pkg-config for.
_PKG_CONFIG = """#!/bin/sh
case "$*" in *--cflags*) echo "-I'{headers}'" ;; *) echo "-L'{library}' -lflux -ldl -lm" ;; esac
"""
_DISK_GB = 4  # Go's and cargo's caches


def influxd() -> Path:
    """The program that is `find_influxd`, else the one that is built now, once.

    Raises ``EnvironmentFault`` if what `$UNSKEW_INFLUXD` names is no InfluxDB 2, or there is none and it can't be had.
    """
    return find_influxd() or built()


def built() -> Path:
    """The program in the user's cache, which is made first if it isn't there yet.

    That takes some 5 minutes on two cores.

    Raises ``EnvironmentFault`` if go, cargo or a C compiler is missing, or the build fails.
    """
    program = influxd_cache_path()
    directory = program.parent.parent
    if program.is_file():
        return program
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(directory / "build.lock"), temporary_workspace(directory) as here:
            if not program.is_file():  # else another process was faster
                result = here / "result"
                _require_tools()
                require_disk(directory, _DISK_GB)
                _build(here, result / "influxd", build_log())
                result.rename(program.parent)
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentFault(f"cannot build InfluxDB in {directory}: {error}; XDG_CACHE_HOME moves it") from error
    return program


def build_log() -> Path:
    """The file of all that Go and cargo print during a build."""
    return cache_directory() / "influxd" / "build.log"


def _build(here: Path, program: Path, log: Path) -> None:
    log.unlink(missing_ok=True)
    shutil.copy(_DESCRIPTION, here)
    pkg_config = here / "pkg-config"
    environment = {
        **os.environ,
        **_CHEAP,
        "GOFLAGS": "-mod=mod",  # go.sum is made as it goes, checked against Go's public one
        "CGO_ENABLED": "1",
        "PKG_CONFIG": str(pkg_config),
    }
    with ProgressBar(f"building InfluxDB {VERSION}, once", None, "about 5 minutes") as progress:

        def step(*command: str | Path) -> None:
            if run_with_progress(command, log, progress, _is_step, directory=here, environment=environment):
                advice = "mend that, or put an influxd of InfluxDB 2.7 on the PATH or name it in UNSKEW_INFLUXD"
                raise EnvironmentFault(f"cannot build InfluxDB (log: {log}); {advice}")

        step("go", "mod", "download", _FLUX)
        source, made = _source(here, environment), here / "libflux"
        # `cargo build` would make a shared library too.
        only = ("--package", "flux", "--lib", "--crate-type", "staticlib", "--release", "--locked")
        step("cargo", "rustc", "--manifest-path", source / "Cargo.toml", "--target-dir", made, *only)
        pkg_config.write_text(_PKG_CONFIG.format(headers=source / "include", library=made / "release"))
        pkg_config.chmod(0o755)
        flags = ("-v", "-trimpath", "-tags", _TAGS, "-gcflags", _CHEAP_GO)
        linked = ("-ldflags", f"-s -w -X main.version=v{VERSION}")
        step("go", "build", *flags, *linked, "-o", program, f"{_MODULE}/cmd/influxd")


def _source(here: Path, environment: dict[str, str]) -> Path:
    """Where Go has put the part of Flux that is in Rust."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", _FLUX]
    return Path(subprocess.check_output(command, cwd=here, env=environment, text=True).strip()) / "libflux"


def _is_step(line: str) -> bool:  # go build -v names each package that it compiles, cargo each crate
    return line.lstrip().startswith("Compiling ") or (" " not in line and "/" in line)


def _require_tools() -> None:
    compiler = os.environ.get("CC", "cc").split()[0]
    wanted = {"go": "Go 1.24 or later", "cargo": "Rust's cargo", compiler: "a C compiler"}
    if missing := [what for tool, what in wanted.items() if shutil.which(tool) is None]:
        raise EnvironmentFault(
            f"InfluxDB is not on this machine, and building it needs {' and '.join(missing)}: install that, "
            "or put an influxd of InfluxDB 2.7 on the PATH or name it in UNSKEW_INFLUXD"
        )
