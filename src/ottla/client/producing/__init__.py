"""Writing records: batches, their numbers and their fates, transactions."""
