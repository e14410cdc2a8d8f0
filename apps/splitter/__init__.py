"""The splitter: from Kafka messages to keys and counts."""
