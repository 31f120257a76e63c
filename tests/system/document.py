"""The fenced blocks of a document, as a reader would copy them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: str, language: str = "") -> list[str]:
    """The blocks of `document` (a path from the root) in `language`; those without a name for the empty one."""
    text = (ROOT / document).read_text()
    return [match["text"] for match in _FENCE.finditer(text) if match["language"] == language]


def block_with(document: str, part: str, language: str = "") -> str:
    """The one block that contains `part`."""
    (found,) = (block for block in blocks(document, language) if part in block)
    return found
