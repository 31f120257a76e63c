from pathlib import Path

import pytest

from tests.scenarios.streams_groups.conversation import run

CONVERSATIONS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
def test_the_conversation_goes_as_written_down(path: Path):
    script = path.read_text()
    assert run(script) == script
