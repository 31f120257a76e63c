"""The answer to a produce request that wrote one batch to one partition, made without building the response.

Nearly every produce request is of this kind, and nearly every one goes well. Its answers differ from one another in the
correlation id and three numbers only, so the frame is encoded once and then copied with other numbers put in:

    | length | correlation id | ... topic, index ... | base offset, append time, log start offset | ... |
             ^ 4              ^ 8                    ^ found by encoding marks in their place
"""

from struct import Struct
from typing import Final
from uuid import UUID

from ottla.protocol.frame import encode_response
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

_TEMPLATES_MAX: Final = 4096
"""So many are kept; then all are made anew."""

_HEAD_BYTES: Final = 8
_LOG_START_VERSION: Final = 5
_correlation_id: Final = Struct(">i").pack
_MARKS: Final = (0x1357_9BDF_0246_8ACE, 0x0FED_CBA9_8765_4321, 0x1122_3344_5566_7788)
_two_numbers: Final = Struct(">qq").pack
_three_numbers: Final = Struct(">qqq").pack

AnswerKey = tuple[int, str | UUID, int]
"""The version of the request, name of the topic or its id where requests name no topics, index of the partition."""


class ProduceAnswers:
    """Answers by version, topic and partition. The frames are those `encode_response` gives."""

    __slots__ = ("_templates",)

    def __init__(self) -> None:
        self._templates: dict[AnswerKey, tuple[bytes, bytes, bytes]] = {}

    def frame(
        self,
        correlation_id: int,
        key: AnswerKey,
        base_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
    ) -> bytes:
        """The frame, with its length, that says that a batch was written to the partition that `key` names."""
        template = self._templates.get(key)
        if template is None:
            template = self._make(key)
        length, before, after = template
        if key[0] < _LOG_START_VERSION:
            numbers = _two_numbers(base_offset, log_append_time_ms)
        else:
            numbers = _three_numbers(base_offset, log_append_time_ms, log_start_offset)
        return b"".join((length, _correlation_id(correlation_id), before, numbers, after))

    def _make(self, key: AnswerKey) -> tuple[bytes, bytes, bytes]:
        version, topic, index = key
        base_offset, log_append_time_ms, log_start_offset = _MARKS
        partition = PartitionProduceResponse(
            index=index,
            base_offset=base_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=log_start_offset,
        )
        named = {"name": topic} if isinstance(topic, str) else {"topic_id": topic}
        response = TopicProduceResponse(**named, partition_responses=(partition,))
        frame = encode_response(0, ProduceResponse(responses=(response,)), version)
        marks = _two_numbers(*_MARKS[:2]) if version < _LOG_START_VERSION else _three_numbers(*_MARKS)
        # From the end: the name, which a client chose, comes before the numbers.
        before, found, after = frame[_HEAD_BYTES:].rpartition(marks)
        assert found
        if len(self._templates) >= _TEMPLATES_MAX:
            self._templates.clear()
        template = self._templates[key] = (frame[:4], before, after)
        return template
