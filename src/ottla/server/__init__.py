"""One broker process, wired."""

from ottla.server.options import ServeOptions
from ottla.server.serve import serve

__all__ = ["ServeOptions", "serve"]
