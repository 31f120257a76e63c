"""Consumer groups of every client library that has them, with each of its assignors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka.admin import KafkaAdminClient

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import Client
from tests.conformance.clients.known import CLIENTS, each_client, each_client_and
from tests.conformance.group_members import PARTITIONS, fill, new_group, poll_until, read_all, shared_by
from tests.conformance.topics import new_topic

ClientNamed = Callable[[str], Client]
WITH_GROUPS = [name for name, kind in CLIENTS.items() if kind.assignors]
WITH_STATIC_MEMBERS = [name for name in WITH_GROUPS if CLIENTS[name].has_static_membership]


@each_client_and("assignor", lambda client: client.assignors, "group: {}")
@pytest.mark.proves(feature="group: rebalance on join and leave")
def test_two_members_share_the_partitions_and_one_that_leaves_hands_its_own_over(
    client_named: ClientNamed, group_broker: BrokerProcess, name: str, assignor: str
) -> None:
    topic, group, client = new_topic(group_broker, PARTITIONS), new_group(), client_named(name)
    first_half = fill(group_broker, topic, 400)
    first = client.member(group, topic, assignor)
    assert sorted(read_all([first], first_half)) == sorted(first_half)
    first.commit()

    second = client.member(group, topic, assignor)
    got: list[bytes] = []
    poll_until([first, second], shared_by([first, second]), got)
    assert got == []
    second_half = fill(group_broker, topic, 400, first=400)
    poll_until([first, second], lambda: set(got) >= second_half, got)
    assert sorted(got) == sorted(second_half)

    first.commit()
    second.commit()
    first.close()
    poll_until([second], lambda: second.assignment() == set(range(PARTITIONS)), got)
    last = fill(group_broker, topic, 40, first=800)
    assert set(read_all([second], last)) == last
    second.close()


@each_client(WITH_GROUPS)
@pytest.mark.proves(feature="commit with metadata")
def test_a_commit_and_its_note_are_kept_and_the_group_goes_on_there(
    client_named: ClientNamed, group_broker: BrokerProcess, name: str
) -> None:
    topic, group, client = new_topic(group_broker, PARTITIONS), new_group(), client_named(name)
    before = fill(group_broker, topic, 100)
    member = client.member(group, topic, client.assignors[0])
    read_all([member], before)
    member.commit("seen by the night shift")
    member.close()

    admin = KafkaAdminClient(bootstrap_servers=group_broker.bootstrap)
    listed = admin.list_group_offsets(group)[group]
    admin.close()
    committed = {each.partition: (found.offset, found.metadata) for each, found in listed.items()}
    assert committed == dict.fromkeys(range(PARTITIONS), (25, "seen by the night shift" + client.note_ends_with))

    after = fill(group_broker, topic, 100, first=100)
    member = client.member(group, topic, client.assignors[0])
    assert sorted(read_all([member], after)) == sorted(after)
    member.close()


@each_client(WITH_STATIC_MEMBERS)
@pytest.mark.proves(feature="static membership")
def test_a_static_member_is_back_without_a_rebalance(
    client_named: ClientNamed, group_broker: BrokerProcess, name: str
) -> None:
    topic, group, client = new_topic(group_broker, PARTITIONS), new_group(), client_named(name)
    assignor = client.assignors[0]
    stays = client.member(group, topic, assignor, "stays")
    returns = client.member(group, topic, assignor, "returns")
    poll_until([stays, returns], shared_by([stays, returns]), [])
    parts, rebalances = (stays.assignment(), returns.assignment()), stays.rebalances

    returns.close()
    returns = client.member(group, topic, assignor, "returns")
    poll_until([returns], lambda: bool(returns.assignment()), [])
    values = fill(group_broker, topic, 100)
    got: list[bytes] = []
    poll_until([stays, returns], lambda: set(got) >= values, got)
    assert (stays.assignment(), returns.assignment()) == parts
    assert stays.rebalances == rebalances
    stays.close()
    returns.close()


@pytest.mark.peer
@pytest.mark.proves(client="franz-go", feature="group with members of other clients")
def test_members_in_go_c_and_python_share_one_group(client_named: ClientNamed, group_broker: BrokerProcess) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    names = [name for name in WITH_GROUPS if "range" in CLIENTS[name].assignors]
    members = [client_named(name).member(group, topic, "range") for name in names]
    assert len(members) == PARTITIONS
    got: list[bytes] = []
    poll_until(members, shared_by(members), got)
    values = fill(group_broker, topic, 300)
    poll_until(members, lambda: set(got) >= values, got)
    assert sorted(got) == sorted(values)
    for member in members:
        member.commit()
    for member in members:
        member.close()
