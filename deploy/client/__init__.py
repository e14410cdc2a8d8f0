"""How to reach running servers: Kafka with its topics, and InfluxDB."""
