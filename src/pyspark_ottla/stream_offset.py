"""The position of a stream, as stored in the checkpoint and shown in the progress.

```
{"events": {"0": 23, "1": 42}, "#topicIds": {"events": "1f3c0f0e-..."}}
```

The first part is that of Spark's Kafka source. The second part distinguishes a topic from a later topic with the same
name, which offsets alone cannot. `#` is not allowed in the name of a topic, so the two cannot be confused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pyspark_ottla.offset_json import Offsets, offsets_from_json, offsets_to_json
from pyspark_ottla.options import OptionError

TOPIC_IDS = "#topicIds"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset of each partition, and which topics they belong to."""

    offsets: Offsets = field(default_factory=dict)
    topic_ids: dict[str, UUID] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As Spark stores it. Equal offsets give equal text, which is how Spark sees that nothing is new."""
        ids = {topic: str(topic_id) for topic, topic_id in sorted(self.topic_ids.items())}
        return {**offsets_to_json(self.offsets), **({TOPIC_IDS: ids} if ids else {})}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "StreamOffset":
        """The reverse. Raises OptionError for a checkpoint of another source."""
        ids = stored.get(TOPIC_IDS, {})
        offsets = {topic: partitions for topic, partitions in stored.items() if topic != TOPIC_IDS}
        try:
            topic_ids = {topic: UUID(topic_id) for topic, topic_id in ids.items()}
        except (AttributeError, TypeError, ValueError):
            raise OptionError(f"the checkpoint holds no offsets of this source: {stored!r}") from None
        return cls(offsets_from_json(offsets, option="checkpointLocation"), topic_ids)
