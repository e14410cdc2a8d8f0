"""Grafana's dashboards as code, and their pictures without Grafana."""

if __name__ != "unskew.dashboards":  # or every module would exist twice
    raise ImportError(f"{__name__} is imported as unskew.dashboards")
