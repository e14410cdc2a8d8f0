"""A dashboard: its panels in order, what stands above them, and the marks on them."""

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    AnnotationContainer,
    AnnotationQuery,
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    Panel,
)

from unskew.dashboards.grafana import tables, variables
from unskew.dashboards.grafana.flux import Flux
from unskew.dashboards.grafana.sources import INFLUXDB

TAG = "unskew"

#: Mark → (kinds of event, colour).
MARKS = {
    "Starts and restarts": (("start", "restart"), "#7f7f7f"),
    "Scale-ups": (("scale_up",), "#2ca02c"),
    "Scale-downs": (("scale_down",), "#9467bd"),
    "Rebalances": (("rebalance",), "#ff7f0e"),
}


def page(
    uid: str,
    title: str,
    description: str,
    panels: Sequence[Builder[Panel]],
    *,
    sources: Sequence[str] = ("influxdb",),
    workers: bool = False,
) -> Dashboard:
    """A dashboard of those panels, which fill rows of 24 columns in their order.

    Parameters
    ----------
    uid : str
        What its address has.
    title : str
        The question that it answers.
    description : str
        How it does.
    panels : sequence of panel builders
        With width and height.
    sources : sequence of str
        Data sources that its panels ask; the first tells which runs there are.
    workers : bool
        Whether workers can be chosen.

    """
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .time("now-30m", "now")
        .refresh("10s")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Dashboards")
            .type(DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .icon("external link")
            .tooltip("")
            .include_vars(True)
            .keep_time(True)
        )
    )
    # The marks come from InfluxDB, whatever the panels ask.
    for name in sorted({"influxdb", *sources}):
        made = made.with_variable(variables.source(name))
    for name in ("run", "grouping", *(["worker"] if workers else [])):
        made = made.with_variable(variables.tag(name, prometheus=sources[0] == "prometheus"))
    for number, panel in enumerate(panels, 1):
        made = made.with_panel(_Numbered(panel, number))
    result = made.build()
    result.annotations = AnnotationContainer([_mark(name, *how) for name, how in MARKS.items()])
    return result


class _Numbered(Builder[Panel]):
    """A panel with the id that links to it need."""

    def __init__(self, panel: Builder[Panel], number: int) -> None:
        self._panel, self._number = panel, number

    def build(self) -> Panel:
        built = self._panel.build()
        built.id_val = self._number
        return built


def _mark(name: str, kinds: Sequence[str], colour: str) -> AnnotationQuery:
    target = Flux(tables.happened(kinds)).build()
    target.ref_id = "Anno"
    return AnnotationQuery(name=name, datasource=INFLUXDB, enable=True, icon_color=colour, target=target)
