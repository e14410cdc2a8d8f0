"""Kafka: how a cluster is reached, its topics, one reader, one writer, the group for lag tools, and JSON columns."""
