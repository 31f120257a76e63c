"""Reading records: positions, fetches, groups and their offsets."""
