"""NEXMark's query 16 in Flink: its SQL as it was published, but for the sink.

    python channels.py BOOTSTRAP TOPIC OUTPUT WORKERS CHECKPOINTS JARS

The query, the table and the view are those of https://github.com/nexmark/nexmark (nexmark-flink/src/main/resources/
queries/). After https://nightlies.apache.org/flink/flink-docs-release-2.2/docs/dev/table/tuning/ ("MiniBatch
Aggregation", "Use FILTER Modifier on Distinct Aggregates") and .../connectors/table/upsert-kafka/. Settings are those
of ``program.py``. NEXMark's sink drops rows. This one writes a channel's row again whenever it has changed.

"Split Distinct Aggregation" of that page, which NEXMark's own settings have, is left out: it makes four rows of a bid
and shuffles twice, and with two workers the job took twice as long by it.

Checkpoints go to the folder CHECKPOINTS, because the job manager keeps no state above 5 MB
(.../ops/state/checkpoints/).
"""

import sys

from pyflink.common.configuration import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

SOURCE = """
CREATE TABLE kafka (
  event_type INT,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, `dateTime` TIMESTAMP(3),
    extra VARCHAR>
) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'properties.group.id' = '{output}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
)
"""
BIDS = """
CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.`dateTime`, bid.extra
FROM kafka WHERE event_type = 2
"""
SINK = """
CREATE TABLE nexmark_q16 (
  channel VARCHAR,
  `day` VARCHAR,
  `minute` VARCHAR,
  total_bids BIGINT,
  rank1_bids BIGINT,
  rank2_bids BIGINT,
  rank3_bids BIGINT,
  total_bidders BIGINT,
  rank1_bidders BIGINT,
  rank2_bidders BIGINT,
  rank3_bidders BIGINT,
  total_auctions BIGINT,
  rank1_auctions BIGINT,
  rank2_auctions BIGINT,
  rank3_auctions BIGINT,
  PRIMARY KEY (channel, `day`) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{output}', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'value.format' = 'json'
)
"""
QUERY = """
INSERT INTO nexmark_q16
SELECT
  channel,
  DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') as `day`,
  max(DATE_FORMAT(`dateTime`, 'HH:mm')) as `minute`,
  count(*) AS total_bids,
  count(*) filter (where price < 10000) AS rank1_bids,
  count(*) filter (where price >= 10000 and price < 1000000) AS rank2_bids,
  count(*) filter (where price >= 1000000) AS rank3_bids,
  count(distinct bidder) AS total_bidders,
  count(distinct bidder) filter (where price < 10000) AS rank1_bidders,
  count(distinct bidder) filter (where price >= 10000 and price < 1000000) AS rank2_bidders,
  count(distinct bidder) filter (where price >= 1000000) AS rank3_bidders,
  count(distinct auction) AS total_auctions,
  count(distinct auction) filter (where price < 10000) AS rank1_auctions,
  count(distinct auction) filter (where price >= 10000 and price < 1000000) AS rank2_auctions,
  count(distinct auction) filter (where price >= 1000000) AS rank3_auctions
FROM bid
GROUP BY channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')
"""
SETTINGS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "pipeline.object-reuse": "true",
    "execution.checkpointing.interval": "10 s",
}


def main() -> None:
    bootstrap, topic, output, workers, checkpoints, jars = sys.argv[1:]
    settings = Configuration()
    for name, value in {**SETTINGS, "execution.checkpointing.dir": f"file://{checkpoints}"}.items():
        settings.set_string(name, value)
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    environment.add_jars(*jars.split(";"))
    environment.set_parallelism(int(workers))
    tables = StreamTableEnvironment.create(environment)
    names = {"bootstrap": bootstrap, "topic": topic, "output": output}
    for statement in (SOURCE, BIDS, SINK):
        tables.execute_sql(statement.format(**names))
    tables.execute_sql(QUERY).wait()


if __name__ == "__main__":
    main()
