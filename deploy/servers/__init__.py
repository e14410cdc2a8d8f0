"""Starts and stops servers on this machine: Kafka, InfluxDB, Prometheus, a Spark cluster."""
