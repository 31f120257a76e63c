"""What the tests of this folder prove, written to build/conformance.md and .json when they have run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.proof_table import Outcome, Proof, as_json, as_markdown, claims

PROOFS = pytest.StashKey[dict[tuple[str, str, str], Proof]]()
CLAIMS = pytest.StashKey[list[tuple[str, str]]]()
REPORT_FOLDER = Path(__file__).resolve().parents[2] / "build"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Read the claims of all tests before the first runs, so that a wrong mark stops the run at once."""
    for item in items:
        marks = [mark.kwargs for mark in item.iter_markers("proves")]
        try:
            item.stash[CLAIMS] = claims(marks)
        except ValueError as wrong:
            raise pytest.UsageError(f"{item.nodeid}: {wrong}") from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Remember how the test ended; a failure in set-up or tear-down counts as the test's."""
    report: pytest.TestReport = yield
    proofs = item.config.stash.setdefault(PROOFS, {})
    for client, feature in item.stash.get(CLAIMS, []):
        key = (client, feature, item.nodeid)
        if report.failed:
            proofs[key] = Proof(*key, Outcome.FAILED, _first_line(report))
        elif report.skipped:
            proofs[key] = Proof(*key, Outcome.SKIPPED, _first_line(report))
        elif report.when == "call":
            proofs[key] = Proof(*key, Outcome.OK)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table of what ran; a run without claims leaves the last table alone."""
    proofs = session.config.stash.get(PROOFS, {}).values()
    if proofs:
        REPORT_FOLDER.mkdir(exist_ok=True)
        (REPORT_FOLDER / "conformance.md").write_text(as_markdown(proofs))
        (REPORT_FOLDER / "conformance.json").write_text(as_json(proofs))


def _first_line(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ").splitlines()[0]
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr)).strip().splitlines()[0]
