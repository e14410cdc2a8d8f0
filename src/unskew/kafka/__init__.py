"""Kafka: connections, topics, a reader, writers, the consumer group for lag tools, and JSON columns."""
