"""What a running topology shows: metrics for InfluxDB and Prometheus, its progress in a terminal, its summary.

``catalogue`` declares the metrics, ``metrics_reporter`` makes samples of a run's reports, ``outputs`` sends them.
``display`` shows a run, and ``colours`` has each grouping's colour. Tasks report to the driver by ``task_reports`` in a
topology, and in rows that Spark observes (``balance_observation``) in a user's query.
"""
