"""Real servers on this machine, started and stopped: Kafka, InfluxDB, Prometheus, a Spark cluster."""
