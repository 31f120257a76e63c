"""Bytes of every codec are decompressed, up to a limit, against other implementations of each."""

import pytest

from ottla.native import decompress
from ottla.native.errors import CorruptRecordError, DecompressionLimitError
from tests.unit.native.independent_codec import pack

TEXT = b"a metric, " * 5_000
PACKED = {0: TEXT, **{codec: pack(codec, TEXT) for codec in (1, 2, 3, 4)}}


@pytest.mark.parametrize("codec", PACKED)
def test_what_another_implementation_compressed_comes_back(codec):
    assert decompress(PACKED[codec], codec, max_bytes=len(TEXT)) == TEXT
    assert decompress(memoryview(bytearray(PACKED[codec])), codec, max_bytes=len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", PACKED)
def test_no_more_comes_than_is_allowed(codec):
    with pytest.raises(DecompressionLimitError):
        decompress(PACKED[codec], codec, max_bytes=len(TEXT) - 1)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_what_no_codec_wrote_is_refused(codec):
    with pytest.raises(CorruptRecordError):
        decompress(b"\xff" * 100, codec, max_bytes=1_000)


@pytest.mark.parametrize("codec", [-1, 5])
def test_a_codec_that_there_is_not_is_refused(codec):
    with pytest.raises(ValueError, match="there is no codec"):
        decompress(b"", codec, max_bytes=1)
