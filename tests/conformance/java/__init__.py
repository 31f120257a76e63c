"""Apache Kafka's own Java tools and Java client against the broker."""
