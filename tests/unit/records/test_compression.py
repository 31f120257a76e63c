"""The names of the codecs in settings and their ids in batches."""

import pytest

from ottla.native import build_batch, validate_batches
from ottla.records.compression import CompressionType


def test_ids_and_names_are_kafkas() -> None:
    assert {codec.setting: int(codec) for codec in CompressionType} == {
        "none": 0,
        "gzip": 1,
        "snappy": 2,
        "lz4": 3,
        "zstd": 4,
    }


@pytest.mark.parametrize("codec", CompressionType)
def test_a_setting_names_the_codec_that_the_kernel_writes(codec: CompressionType) -> None:
    batch = build_batch([(0, None, b"", [])], codec=CompressionType.from_setting(codec.setting))
    assert CompressionType(validate_batches(batch)[0].codec) is codec


@pytest.mark.parametrize("word", ["producer", "uncompressed", "GZIP", "", "brotli"])
def test_other_words_are_no_codecs(word: str) -> None:
    with pytest.raises(ValueError, match="only none, gzip, snappy, lz4, zstd"):
        CompressionType.from_setting(word)
