"""What the tests of this folder prove, written to build/conformance.md and .json when they have run (of a cluster:
build/conformance-3-brokers.md and .json)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import Client
from tests.conformance.clients.known import WITH_CODECS
from tests.conformance.proof_table import Outcome, Proof, as_json, as_markdown, claims
from tests.shared_broker import BROKERS, shared_broker
from tools.peers import PeerUnavailableError

PROOFS = pytest.StashKey[dict[tuple[str, str, str], Proof]]()
CLAIMS = pytest.StashKey[list[tuple[str, str]]]()
REPORT_FOLDER = Path(__file__).resolve().parents[2] / "build"
REPORT = "conformance" if BROKERS == 1 else f"conformance-{BROKERS}-brokers"


@pytest.fixture(scope="session")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that does not wait for more members, and lets sessions be short."""
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
    with shared_broker(tmp_path_factory.mktemp("groups"), settings) as process:
        yield process


@pytest.fixture(scope="session")
def client_named(group_broker: BrokerProcess) -> Iterator[Callable[[str], Client]]:
    """Client libraries by name, against `group_broker`; skips the test of one that cannot be had, and says why."""
    opened: dict[str, Client] = {}
    missing: dict[str, str] = {}

    def named(name: str) -> Client:
        if name not in opened and name not in missing:
            try:
                opened[name] = WITH_CODECS[name](group_broker)
            except PeerUnavailableError as reason:
                missing[name] = str(reason)
        if name in missing:
            pytest.skip(missing[name])
        return opened[name]

    yield named
    for client in opened.values():
        client.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Read the claims of all tests before the first runs, so that a wrong mark stops the run at once.

    In a cluster those of a broker that is alone are no part of the run.
    """
    for item in items:
        marks = [mark.kwargs for mark in item.iter_markers("proves")]
        try:
            item.stash[CLAIMS] = claims(marks)
        except ValueError as wrong:
            raise pytest.UsageError(f"{item.nodeid}: {wrong}") from None
    alone = [item for item in items if BROKERS > 1 and item.get_closest_marker("alone") is not None]
    if alone:
        config.hook.pytest_deselected(items=alone)
        items[:] = [item for item in items if item not in alone]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember how the test ended; a failure in set-up or tear-down counts as the test's."""
    report = yield
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
    """Write the table of what ran; a run without claims leaves the last table alone, and so does a part of one."""
    if hasattr(session.config, "workerinput"):
        return
    proofs = session.config.stash.get(PROOFS, {}).values()
    if proofs:
        REPORT_FOLDER.mkdir(exist_ok=True)
        (REPORT_FOLDER / f"{REPORT}.md").write_text(as_markdown(proofs))
        (REPORT_FOLDER / f"{REPORT}.json").write_text(as_json(proofs))


def _first_line(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ").splitlines()[0]
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr)).strip().splitlines()[0]
