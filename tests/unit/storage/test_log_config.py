import pytest
from msgspec.structs import asdict

from ottla.records.compression import CompressionType
from ottla.storage.log_config import LogConfig


@pytest.mark.parametrize(
    ("setting", "codec"),
    [
        ("producer", None),
        ("uncompressed", CompressionType.NONE),
        ("gzip", CompressionType.GZIP),
        ("snappy", CompressionType.SNAPPY),
        ("lz4", CompressionType.LZ4),
        ("zstd", CompressionType.ZSTD),
    ],
)
def test_a_log_knows_the_codec_its_topic_asks_for(setting, codec):
    assert LogConfig.from_settings({"compression.type": setting}).compression_type is codec


def test_the_levels_of_the_codecs_are_the_topics():
    config = LogConfig.from_settings(
        {"compression.gzip.level": "9", "compression.lz4.level": "3", "compression.zstd.level": "-5"}
    )
    levels = config.compression_gzip_level, config.compression_lz4_level, config.compression_zstd_level
    assert levels == (9, 3, -5)


def test_without_settings_a_log_has_the_defaults_of_the_table():
    """The rules for batches are made of the settings, and equal to themselves only."""
    found, expected = asdict(LogConfig.from_settings({})), asdict(LogConfig())
    del found["topic_rules"], expected["topic_rules"]
    assert found == expected
