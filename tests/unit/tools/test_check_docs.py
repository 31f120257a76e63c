"""A document that names what is not there is noticed; the documents there are lead somewhere."""

from pathlib import Path

import pytest

from tools import check_docs


@pytest.fixture
def faults_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is wrong in a text, as the README of a small project."""
    (tmp_path / "src" / "ottla" / "storage").mkdir(parents=True)
    (tmp_path / "src" / "ottla" / "storage" / "log.py").touch()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tour.md").write_text("# The Tour\n\n## A record's way in\n")
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    check_docs.source_files.cache_clear()

    def check(text: str) -> list[str]:
        document = tmp_path / "README.md"
        document.write_text(text)
        return list(check_docs.faults(document))

    yield check
    check_docs.source_files.cache_clear()


@pytest.mark.parametrize(
    "text",
    [
        "[tour](docs/tour.md)",
        "[tour](docs/tour.md#the-tour)",
        "[in](docs/tour.md#a-records-way-in)",
        "[elsewhere](https://example.org/x#y)",
        "`src/ottla/storage/log.py`",
        "`storage/log.py` and `log.py`",
        "`src/ottla/`",
    ],
)
def test_what_is_there_is_no_fault(faults_of, text: str):
    assert faults_of(text) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("\n[tour](docs/tuor.md)", "README.md:2: the link to docs/tuor.md leads nowhere"),
        ("[tour](docs/tour.md#the-end)", "README.md:1: docs/tour.md has no heading the-end"),
        ("`src/ottla/storage/gone.py`", "README.md:1: there is no src/ottla/storage/gone.py"),
        ("`storage/gone.py`", "README.md:1: no file is named storage/gone.py"),
        ("`og.py`", "README.md:1: no file is named og.py"),
    ],
)
def test_what_is_not_there_is_said_with_its_place(faults_of, text: str, fault: str):
    assert faults_of(text)[:1] == [fault]


def test_the_documents_of_this_repository_lead_somewhere():
    assert [fault for document in check_docs.documents() for fault in check_docs.faults(document)] == []
