"""Ottla beside Apache Kafka: the same client and the same load on the same machine, in one run."""
