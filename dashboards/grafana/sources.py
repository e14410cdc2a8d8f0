"""The data sources that the dashboards ask, each behind a variable: a dashboard can be pointed at others."""

from grafana_foundation_sdk.models.common import DataSourceRef

#: Variable → (what the user sees, the provisioned data source's uid and name).
SOURCES = {
    "influxdb": ("InfluxDB", "unskew-influxdb"),
    "prometheus": ("Prometheus", "unskew-prometheus"),
}

INFLUXDB = DataSourceRef(type_val="influxdb", uid="${influxdb}")
PROMETHEUS = DataSourceRef(type_val="prometheus", uid="${prometheus}")
