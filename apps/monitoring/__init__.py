"""What a running topology tells the outside: to InfluxDB by push, to Prometheus by pull.

``samples`` turns what the topology reports into measured values, ``monitor`` listens to a run, ``outputs`` are where
the values go. Which metrics there are is said in ``unskew.apps.monitoring.catalogue``.
"""
