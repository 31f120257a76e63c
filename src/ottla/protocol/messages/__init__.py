"""The requests and responses of the Kafka protocol, a module per API, and other messages it defines."""
