"""The nouns every band shares: frozen values, no behaviour that needs time, chance or disk."""
