"""What a client pushes of its metrics, as it is kept and as it is shown: read, or refused as the client's mistake.

which, 1 byte | metrics, in one of the codecs, or a record of the topic
"""

from ottla.client.admin.pushed_metrics import CODEC_NAMES, PushedMetrics
from ottla.model.errors import InvalidInputError
from ottla.native import decompress
from ottla.protocol.otlp_metrics import POINTS_MAX, TEXT_BYTES_MAX, decode_metrics

BYTES_MAX = 1 << 20
HEADERS = tuple(name for name, _ in PushedMetrics("", "", "", "", "", 0, 0, "none", False, 0, b"").headers)


def check(data: bytes) -> None:
    """See the top of the file."""
    if not data:
        return
    which, rest = data[0] % (len(CODEC_NAMES) + 1), data[1:]
    try:
        if which < len(CODEC_NAMES):
            pushed(which, rest)
        else:
            record(rest)
    except InvalidInputError:
        return


def pushed(codec: int, data: bytes) -> None:
    """Names and attributes are text of a bounded length, and there are no more values than are allowed."""
    metrics = decompress(data, codec, max_bytes=BYTES_MAX)
    assert len(metrics) <= BYTES_MAX
    points = decode_metrics(metrics)
    assert len(points) <= POINTS_MAX
    for point in points:
        assert len(point.name) <= TEXT_BYTES_MAX + len(".count")
        assert all(len(text) <= TEXT_BYTES_MAX for pair in point.attributes for text in pair)


def record(data: bytes) -> None:
    """A record that was read is written as the same one."""
    key, *texts = data.split(b"\0")
    headers = list(zip(HEADERS, texts, strict=False))
    found = PushedMetrics.of_record(key, b"", headers, 0)
    again = PushedMetrics.of_record(found.client_instance_id.encode(), b"", found.headers, 0)
    assert again == found
