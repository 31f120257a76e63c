"""Every setting: its name, type, bounds, default, when it applies, and what it says."""
