"""One broker process, wired."""

from ottla.server.options import ServeOptions
from ottla.server.serve import check, serve

__all__ = ["ServeOptions", "check", "serve"]
