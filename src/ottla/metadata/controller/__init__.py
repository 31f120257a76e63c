"""Decides: each decision is a pure function of the image, and its records are appended through the store."""
