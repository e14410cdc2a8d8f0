"""A real Prometheus in a process of its own on the loopback interface, for trying out and for tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson

from unskew.deploy.installation.programs.prometheus import prometheus_programs
from unskew.deploy.servers.http_server import HttpServer
from unskew.deploy.servers.loopback import ask


class Prometheus(HttpServer):
    """Prometheus that scrapes what it is told to; as a context manager it runs inside the block.

    Samples survive `stop`, `kill` and `restart`.

    Parameters
    ----------
    directory
        Its own: samples, configuration, log.
    targets
        Job → `host:port` addresses whose `/metrics` it scrapes.
    targets_from
        Directory of JSON files that name more targets, in Prometheus' format for its `file_sd_configs`; a file that
        appears or changes is noticed at once. Their job is `unskew`.
    rules
        Files of recording rules and alerts.
    every
        Seconds between scrapes, and between evaluations of the rules.
    port
        Where clients connect; a free port by default.

    Examples
    --------
    >>> with Prometheus(Path("out/prometheus"), targets={"unskew": ["127.0.0.1:9464"]}) as server:  # doctest: +SKIP
    ...     server.query("unskew_window_std_dev_percent")
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
        self._configuration = _configuration(targets or {}, targets_from, rules, every)

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """The series of an instant query, each with its `metric` (labels) and `value` (time, text).

        Parameters
        ----------
        expression
            PromQL for an instant vector.
        at
            Unix time; now by default.

        Raises
        ------
        OSError
            If Prometheus refuses it or doesn't answer.
        """
        parameters = {"query": expression} | ({"time": at} if at is not None else {})
        return ask(f"{self.url}/api/v1/query?{urlencode(parameters)}")["data"]["result"]

    def _command(self) -> list[str | Path]:
        programs = prometheus_programs()
        if self._targets_from is not None:
            self._targets_from.mkdir(parents=True, exist_ok=True)  # Prometheus doesn't watch for what isn't there
        settings = self.directory / "prometheus.yml"
        settings.write_bytes(orjson.dumps(self._configuration, option=orjson.OPT_INDENT_2))  # JSON is YAML
        return [
            programs.prometheus,
            f"--config.file={settings}",
            f"--web.listen-address={self.listens}",
            f"--storage.tsdb.path={self.directory / 'samples'}",
            "--log.level=warn",
            *([f"--web.local-assets={programs.pages}"] if programs.pages else []),
        ]


def _configuration(
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
