"""Datasets as Kafka messages."""

if __name__ != "unskew.producers":  # a second copy of every module would come of it
    raise ImportError(f"{__name__} is imported as unskew.producers")
