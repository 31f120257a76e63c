"""Says that a command has created a topic by writing to it: the name may be a typo."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.model.printable import printable

if TYPE_CHECKING:
    from ottla.client.producing.producer import Producer


async def tell_if_created(producer: "Producer", topic: str) -> None:
    """Have the broker create a topic that does not exist, if it does that, and say so on stderr."""
    if await producer.exists(topic):
        return
    count = await producer.partitions(topic)
    made = f"topic {topic} did not exist; it was created with {count} partition{'s' * (count != 1)}"
    with suppress(OSError):
        print(f"ottla: {printable(made)}", file=sys.stderr)
