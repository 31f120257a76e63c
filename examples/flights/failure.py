"""When the demo cannot go on."""


class DemoError(RuntimeError):
    """Something that the demo needs is not there or failed. The message is one line: what, and what to do."""
