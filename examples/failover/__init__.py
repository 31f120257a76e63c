"""Three brokers, a load, one of them killed in the middle: what clients see of it."""
