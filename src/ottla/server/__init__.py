"""One broker process, wired."""
