"""Grafana's dashboards as code, and their pictures without Grafana."""

if __name__ != "unskew.dashboards":  # a second copy of every module would come of it
    raise ImportError(f"{__name__} is imported as unskew.dashboards")
