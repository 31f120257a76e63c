"""Managing a cluster: topics, settings, groups, quotas, replicas, transactions."""
