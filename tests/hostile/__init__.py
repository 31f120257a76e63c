"""Bad input against the broker as it runs: whatever arrives, the rest of the world notices nothing."""
