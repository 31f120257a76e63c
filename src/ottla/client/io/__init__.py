"""Connections to a cluster: addresses, versions, metadata, coordinators, retries; on an event loop or blocking."""
