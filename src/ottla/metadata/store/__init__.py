"""The consensus engine behind one small interface: sessions, an election, and an append-only metadata log."""
