"""Prometheus as a process on the loopback interface, for trying out and for tests."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson

from unskew.deploy.servers.server import HttpServer
from unskew.directories import cache_directory
from unskew.errors import EnvironmentFault
from unskew.loopback import fetch_response

#: The advice for users without Prometheus.
INSTALL = (
    "install Prometheus (Debian, Ubuntu: `sudo apt-get install prometheus`; Fedora: `sudo dnf install "
    "golang-github-prometheus`; macOS: `brew install prometheus`), or name its program in UNSKEW_PROMETHEUS"
)


@dataclass(frozen=True)
class PrometheusPrograms:
    """The server `prometheus`, and `promtool`, which checks its files."""

    prometheus: Path  #: The programs' paths.
    promtool: Path
    pages: Path | None = None  #: The directory of the web pages, if Debian's server wouldn't find them in `/usr/share`.


def require_programs() -> PrometheusPrograms:
    """The programs found by `find_programs`.

    Raises ``EnvironmentFault`` if there are none, or `$UNSKEW_PROMETHEUS` doesn't exist.
    """
    if found := find_programs():
        return found
    raise EnvironmentFault(
        f"Prometheus is not on this machine: {INSTALL}; in the project's repository, `make servers` fetches it"
    )


def find_programs() -> PrometheusPrograms | None:
    """The programs next to `$UNSKEW_PROMETHEUS`, or the PATH's, or those in the user's cache, or None.

    Raises ``EnvironmentFault`` if the variable's program doesn't exist.
    """
    if named := os.environ.get("UNSKEW_PROMETHEUS"):
        program = Path(named).expanduser().absolute()
        found = PrometheusPrograms(program, program.with_name("promtool"))
        for path in (found.prometheus, found.promtool):
            if not os.access(path, os.X_OK):
                raise EnvironmentFault(f"UNSKEW_PROMETHEUS is {named}, but there is no program {path}")
        return found
    server, tool = shutil.which("prometheus"), shutil.which("promtool")
    if server and tool:
        return PrometheusPrograms(Path(server), Path(tool))
    usr = programs_cache_directory() / "usr"
    if not usr.is_dir():
        return None
    return PrometheusPrograms(usr / "bin" / "prometheus", usr / "bin" / "promtool", usr / "share/prometheus/web")


def programs_cache_directory() -> Path:
    """The directory in which `make servers` unpacks Debian's package."""
    return cache_directory() / "debian" / "prometheus"


class PrometheusServer(HttpServer):
    """Prometheus, which scrapes its targets. As a context manager it runs inside the block.

    Samples survive `stop`, `kill` and `restart`.

    Parameters
    ----------
    directory, port
        As for `ServerProcess`.
    targets
        Job → addresses `host:port` that Prometheus scrapes, each at `/metrics`.
    targets_from
        Directory of JSON files with more targets, in the format of Prometheus' `file_sd_configs`. Prometheus notices
        new and changed files at once. The job of these targets is `unskew`.
    rules
        Files with recording rules and alerts.
    every
        Seconds between scrapes, and between evaluations of the rules.

    Examples
    --------
    >>> targets = {"unskew": ["127.0.0.1:9464"]}
    >>> with PrometheusServer(Path("out/prometheus"), targets=targets) as server:  # doctest: +SKIP
    ...     server.query("unskew_window_std_dev_ratio")
    """

    name = "Prometheus"
    health = "/-/ready"

    def __init__(
        self,
        directory: Path,
        *,
        targets: Mapping[str, Sequence[str]] | None = None,
        targets_from: Path | None = None,
        rules: Sequence[Path] = (),
        every: float = 5,
        port: int | None = None,
    ) -> None:
        super().__init__(directory, port=port)
        self._targets_from = targets_from
        self._configuration = _make_configuration(targets or {}, targets_from, rules, every)

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """The series of an instant query, each with its `metric` (labels) and `value` (time, text).

        `at` is a Unix time. Default: now.

        Raises ``OSError`` if Prometheus refuses the query or doesn't answer.
        """
        parameters = {"query": expression} | ({"time": at} if at is not None else {})
        return fetch_response(f"{self.url}/api/v1/query?{urlencode(parameters)}")["data"]["result"]

    def _command(self) -> list[str | Path]:
        programs = require_programs()
        if self._targets_from is not None:
            self._targets_from.mkdir(parents=True, exist_ok=True)  # Prometheus doesn't watch missing directories
        settings = self.directory / "prometheus.yml"
        settings.write_bytes(orjson.dumps(self._configuration, option=orjson.OPT_INDENT_2))  # JSON is YAML
        return [
            programs.prometheus,
            f"--config.file={settings}",
            f"--web.listen-address={self.listen_address}",
            f"--storage.tsdb.path={self.directory / 'samples'}",
            "--log.level=warn",
            *([f"--web.local-assets={programs.pages}"] if programs.pages else []),
        ]


def _make_configuration(
    targets: Mapping[str, Sequence[str]], targets_from: Path | None, rules: Sequence[Path], every: float
) -> dict[str, Any]:
    interval = f"{round(every * 1000)}ms"
    jobs: dict[str, dict[str, Any]] = {
        job: {"job_name": job, "static_configs": [{"targets": list(addresses)}]} for job, addresses in targets.items()
    }
    if targets_from is not None:
        jobs.setdefault("unskew", {"job_name": "unskew"})["file_sd_configs"] = [
            {"files": [f"{targets_from.absolute()}/*.json"]}
        ]
    return {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [str(path.absolute()) for path in rules],
        "scrape_configs": list(jobs.values()),
    }
