"""Queries of NEXMark in Flink's SQL: ``q18``, the last bids, ``q5``, the hot items, or ``q16``, the channels.

    python nexmark.py QUERY BOOTSTRAP TOPIC OUTPUT WORKERS CHECKPOINTS JARS

After ``ddl_kafka``, ``ddl_views``, ``q5``, ``q16`` and ``q18`` in https://github.com/nexmark/nexmark
(``nexmark-flink/src/main/resources/queries``). The table has bids alone, the topic ends, and bids may be 40 minutes
late, in place of 4 s. q16 and q18 are as they are there. They change their results, so these go to a table with a key
(https://nightlies.apache.org/flink/flink-docs-release-2.2/docs/connectors/table/upsert-kafka/). There q5 finds all
auctions with the most bids by a join. Here it finds the one with the greatest id, by a window's top N
(.../dev/table/sql/queries/window-topn/), and gives the window's start, too.

The settings are those of ``program.py``. NEXMark's have "Split Distinct Aggregation" (.../dev/table/tuning/), too. It
is left out: it makes four rows of a bid and shuffles twice, and with two workers q16 took twice as long by it.
Checkpoints go to the folder CHECKPOINTS, as in ``distinct.py``.
"""

import sys

from program import SETTINGS, create_tables

BID = """
  auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, `dateTime` TIMESTAMP(3), extra VARCHAR
"""
KAFKA = f"""
CREATE TABLE kafka (
  event_type INT,
  bid ROW<{BID}>,
  `dateTime` AS bid.`dateTime`,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '40' MINUTE
) WITH (
  'connector' = 'kafka', 'topic' = '{{topic}}', 'properties.bootstrap.servers' = '{{bootstrap}}',
  'properties.group.id' = '{{output}}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
)
"""
BIDS = """
CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`, bid.extra FROM kafka WHERE event_type = 2
"""
SINKS = {
    "q18": f"""
CREATE TABLE results ({BID}, PRIMARY KEY (bidder, auction) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{{output}}', 'properties.bootstrap.servers' = '{{bootstrap}}',
  'key.format' = 'json', 'value.format' = 'json'
)
""",
    "q16": """
CREATE TABLE results (
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
""",
    "q5": """
CREATE TABLE results (`start` TIMESTAMP(3), auction BIGINT, num BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{output}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json'
)
""",
}
QUERIES = {
    "q18": """
INSERT INTO results
SELECT auction, bidder, price, channel, url, `dateTime`, extra
 FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS rank_number
       FROM bid)
 WHERE rank_number <= 1
""",
    "q16": """
INSERT INTO results
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
""",
    "q5": """
INSERT INTO results
SELECT window_start, auction, num
 FROM (SELECT *, ROW_NUMBER() OVER (
         PARTITION BY window_start, window_end ORDER BY num DESC, auction DESC) AS rank_number
       FROM (SELECT auction, count(*) AS num, window_start, window_end
             FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
             GROUP BY auction, window_start, window_end))
 WHERE rank_number <= 1
""",
}


def main() -> None:
    query, bootstrap, topic, output, workers, checkpoints, jars = sys.argv[1:]
    tables = create_tables(workers, jars, SETTINGS | {"execution.checkpointing.dir": f"file://{checkpoints}"})
    names = {"bootstrap": bootstrap, "topic": topic, "output": output}
    for statement in (KAFKA, BIDS, SINKS[query]):
        tables.execute_sql(statement.format(**names))
    tables.execute_sql(QUERIES[query]).wait()


if __name__ == "__main__":
    main()
