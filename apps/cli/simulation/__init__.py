"""`unskew simulate`: what a grouping and W workers would do with a stream, without a cluster."""
