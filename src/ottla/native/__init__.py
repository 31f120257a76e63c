"""The typed face of the Rust kernel."""
