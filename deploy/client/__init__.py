"""How to reach servers that run: Kafka and its topics, InfluxDB."""
