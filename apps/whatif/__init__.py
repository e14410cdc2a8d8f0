"""`unskew simulate`: what a stream would do with a grouping and W workers, without a cluster."""
