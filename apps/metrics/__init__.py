"""What a running topology shows: metrics for InfluxDB and Prometheus, its progress in a terminal, its summary.

``catalogue`` declares the metrics, ``monitor`` makes samples of a run's reports, ``outputs`` sends them; ``display``
shows a run, ``summary`` sums it up, ``colours`` has each grouping's colour.
"""
