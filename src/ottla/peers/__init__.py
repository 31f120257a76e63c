"""The other brokers of the cluster: connections to them, and what this broker asks of them."""
