"""What a redrive says of what it did."""

from __future__ import annotations

import pytest

from ottla.cli.dlq_redrive import _report
from ottla.pipelines.dead_letters.redriving import Tally


@pytest.mark.parametrize(
    ("sent", "not_meant", "said", "warned"),
    [
        (0, 0, "would send back 0 letters", ""),
        (1, 7, "would send back 1 letter;", ""),
        (2, 0, "would send back 2 letters;", ""),
        (0, 7, "would send back 0 letters;", "7 records are no dead letters, or not chosen by the options\n"),
    ],
)
def test_who_finds_no_letter_is_told_that_there_are_other_records(
    capsys: pytest.CaptureFixture[str], sent: int, not_meant: int, said: str, warned: str
) -> None:
    tally = Tally(not_meant=not_meant)
    if sent:
        tally.sent["jobs", ""] = sent
    _report(tally, execute=False, as_json=False)
    told = capsys.readouterr()
    assert said in told.out
    assert told.err == warned
