"""The lag of a run, to the end of the log, and what an open transaction holds back of it."""

from confluent_kafka import Producer

from unskew.apps.metrics.metrics_reporter import sample_progress
from unskew.apps.metrics.query_progress import add_held_back, compute_lags, get_held_back
from unskew.kafka.connection import Connection
from unskew.kafka.reader import EndOffsets
from unskew.kafka.topics import end_offsets, ensure_topic


def test_the_lag_is_to_the_end_of_the_log(kafka, topic):
    connection = Connection(kafka.bootstrap_servers)
    ensure_topic(connection, topic, 2)
    producer = Producer(connection.client(**{"transactional.id": topic}))
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition, value in [(0, b"1"), (1, b"2"), (1, b"3")]:
        producer.produce(topic, value, b"key", partition=partition)
        producer.flush(60)
    ends = EndOffsets(connection, topic)

    def progress():
        """Spark's, of a batch that has taken all that it could."""
        there = {str(partition): end for partition, end in end_offsets(connection, topic, committed=True).items()}
        source = {"description": "KafkaV2[]", "endOffset": {topic: there}, "latestOffset": {topic: there}}
        found = {"sources": [source], "batchId": 1, "durationMs": {}, "stateOperators": []}
        add_held_back(found, ends, lambda: False)
        return found

    found = progress()
    assert compute_lags(found) == get_held_back(found) == {"0": 1, "1": 2}
    fields = {sample.labels.get("source"): sample.values for sample in sample_progress(found, 0, None, None)}
    assert [fields[source]["held_back"] for source in ("0", "1", None)] == [1, 2, 3]
    assert fields[None]["lag"] == 3
    producer.commit_transaction(60)
    assert compute_lags(progress()) == get_held_back(progress()) == {"0": 0, "1": 0}
