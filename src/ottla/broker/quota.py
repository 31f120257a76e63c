"""How much a client may move: the question that produce and fetch ask about every request, once for all doors.

Who is over his quota is served all the same, told for how long to be quiet, and not read from until then (KIP-124).
Until there are rules to ask, `UNLIMITED` lets everybody move everything.
"""

from typing import Final, Protocol

from ottla.model.principal import Principal


class Quota(Protocol):
    """The rules. It is asked on the event loop, for every request: it answers from memory."""

    def charge(self, principal: Principal, size_bytes: int) -> int:
        """Count what the principal moved; for how many milliseconds he is to be quiet, 0 for not at all."""
        ...


class Unlimited:
    """No rules."""

    def charge(self, principal: Principal, size_bytes: int) -> int:
        """Nobody has to be quiet."""
        return 0


UNLIMITED: Final = Unlimited()
