"""The compression codecs of record batches."""

from enum import IntEnum
from typing import Self


class CompressionType(IntEnum):
    """A codec; the value stands in the lowest three bits of a batch's attributes and is `BatchInfo.codec`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def setting(self) -> str:
        """The name in settings such as `compression.type`: lower case."""
        return self.name.lower()

    @classmethod
    def from_setting(cls, setting: str) -> Self:
        """The codec a setting names.

        Raises ValueError for any other word, also for a topic's `producer` and `uncompressed`, which are no codecs.
        """
        for codec in cls:
            if codec.setting == setting:
                return codec
        choices = ", ".join(codec.setting for codec in cls)
        raise ValueError(f"there is no compression codec {setting!r}, only {choices}")
