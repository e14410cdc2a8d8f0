"""The dashboards without Grafana: their own queries are run on the servers, and the results are drawn."""
