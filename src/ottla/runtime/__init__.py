"""The only ways to time, chance, the disk and tasks. Production and simulation pass different ones."""
