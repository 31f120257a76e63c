"""What was changed is told in full, also when the command failed halfway."""

import json

import pytest

from ottla.cli.changes import Changes


def test_people_read_each_line_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Changes(as_json=False) as changes:
        changes.done("deleted topic a", topic="a", deleted=True)
        assert capsys.readouterr().out == "deleted topic a\n"
        changes.row(topic="b", deleted=False)
    assert capsys.readouterr().out == ""


def test_machines_get_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    with Changes(as_json=True) as changes:
        changes.done("deleted topic a", topic="a", deleted=True)
        changes.say("for people")
        changes.row(topic="b", deleted=False)
    assert json.loads(capsys.readouterr().out) == [{"topic": "a", "deleted": True}, {"topic": "b", "deleted": False}]


def test_nothing_to_do_is_an_empty_document(capsys: pytest.CaptureFixture[str]) -> None:
    with Changes(as_json=True):
        pass
    assert json.loads(capsys.readouterr().out) == []


def refused(*done: str) -> None:
    with Changes(as_json=True) as changes:
        for topic in done:
            changes.done(f"deleted topic {topic}", topic=topic, deleted=True)
        raise ValueError("refused")


def test_what_was_done_before_a_failure_is_told_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="refused"):
        refused("a")
    assert json.loads(capsys.readouterr().out) == [{"topic": "a", "deleted": True}]
    with pytest.raises(ValueError, match="refused"):
        refused()
    assert capsys.readouterr().out == ""
