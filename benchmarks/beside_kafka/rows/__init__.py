"""The rows, by what they measure. Each module has one function that measures and records into a session's figures."""
