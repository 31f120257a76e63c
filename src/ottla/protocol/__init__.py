"""The Kafka protocol as values and bytes: messages in all their versions, headers and frames. It does no I/O."""
