"""A partition of a delay topic on up to three brokers: its own code under every fault, in virtual time."""
