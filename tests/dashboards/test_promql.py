"""Queries of Prometheus, judged by promtool on series that are known."""

import json
import re

import pytest

from tests.monitoring.conftest import prometheus_program, promtool  # noqa: F401
from unskew.dashboards.checked_in import dashboards

BEGUN, EVERY = 100, 2  # s


def expression(title: str) -> str:
    """The query of a panel, with all runs selected."""
    (panel,) = (panel for panel in dashboards()["pipeline"]["panels"] if panel["title"] == title)
    return re.sub(r"\$(run|grouping)", ".*", panel["targets"][0]["expr"])


@pytest.mark.programs
def test_a_constant_rate_does_not_climb_after_the_start(promtool, tmp_path):
    """A batch of 4,000 tuples each four seconds, from the first batches on."""
    leaps = " ".join(str(4_000 * (1 + at // 2)) for at in range(100))
    series = 'unskew_run_tuples_total{run="zipf-s1-w4-kg", grouping="KEY"}'
    rate = expression("How many tuples a second?")

    def found(at: int) -> dict[str, object]:
        near = f"count(abs(({rate}) - 1000) <= 250)"
        return {"expr": near, "eval_time": f"{at}s", "exp_samples": [{"value": 1}]}

    test = {
        "interval": f"{EVERY}s",
        "input_series": [{"series": series, "values": f"_x{BEGUN // EVERY - 1} {leaps}"}],
        "promql_expr_test": [found(BEGUN + later) for later in (14, 20, 30, 45, 60, 61, 90, 180)],
    }
    file = tmp_path / "test.json"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": f"{EVERY}s", "tests": [test]}))
    promtool("test", "rules", file)
