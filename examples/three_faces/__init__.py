"""One group, three protocols: jobs that a Redis, a Kafka and an NSQ worker take from each other."""
