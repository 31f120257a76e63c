"""Bytes that nobody would send: what must hold for all of them, and how they are found.

A target takes bytes and raises when a promise is broken. `tests/fuzz/targets` has those in Python, `rust/src/fuzzing`
those in Rust; `tools/fuzz.py` runs both under libFuzzer, which keeps what reaches new code and changes it further. The
seeds it starts from, and what was found with it, are replayed by the tests.
"""
