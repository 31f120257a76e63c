"""One group, three protocols: jobs that Redis, Kafka and NSQ workers take from each other."""
