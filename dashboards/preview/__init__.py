"""The dashboards without Grafana: their own queries, run for real and drawn."""
