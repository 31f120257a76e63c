"""Consumer groups as client libraries use them: each alone, and together in one group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.group_members import (
    PARTITIONS,
    PATIENCE_S,
    AioMember,
    ConfluentMember,
    Member,
    PythonMember,
    fill,
    new_group,
    poll_until,
    read_all,
    shared_by,
)
from tests.conformance.topics import new_topic


@pytest.fixture(scope="module")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that does not wait for more members, and lets sessions be short."""
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
    with BrokerProcess(tmp_path_factory.mktemp("groups") / "data", settings) as process:
        yield process


MEMBERS = pytest.mark.parametrize(
    "make",
    [
        pytest.param(member, id=client, marks=pytest.mark.proves(client=client))
        for client, member in (
            ("confluent-kafka", ConfluentMember),
            ("kafka-python", PythonMember),
            ("aiokafka", AioMember),
        )
    ],
)


@MEMBERS
@pytest.mark.proves(feature="group: rebalance on join and leave")
def test_two_members_share_the_partitions_and_one_that_leaves_hands_its_own_over(
    group_broker: BrokerProcess, make: type[Member]
) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    first_half = fill(group_broker, topic, 400)
    first = make(group_broker, group, topic)
    assert sorted(read_all([first], first_half)) == sorted(first_half)
    first.commit()

    second = make(group_broker, group, topic)
    got: list[bytes] = []
    poll_until([first, second], shared_by([first, second]), got)
    second_half = fill(group_broker, topic, 400, first=400)
    poll_until([first, second], lambda: set(got) >= second_half, got)
    assert set(got) == second_half

    first.commit()
    second.commit()
    first.close()
    poll_until([second], lambda: second.assignment() == set(range(PARTITIONS)), got)
    last = fill(group_broker, topic, 40, first=800)
    assert set(read_all([second], last)) == last
    second.commit()
    second.close()


@MEMBERS
@pytest.mark.proves(feature="group: goes on where it committed")
def test_a_group_goes_on_where_it_committed(group_broker: BrokerProcess, make: type[Member]) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    before = fill(group_broker, topic, 100)
    member = make(group_broker, group, topic)
    read_all([member], before)
    member.commit()
    member.close()
    after = fill(group_broker, topic, 100, first=100)
    member = make(group_broker, group, topic)
    assert sorted(read_all([member], after)) == sorted(after)
    member.close()


@pytest.mark.proves(client="confluent-kafka", feature="group with members of other clients")
@pytest.mark.proves(client="kafka-python", feature="group with members of other clients")
@pytest.mark.proves(client="aiokafka", feature="group with members of other clients")
def test_members_of_three_libraries_share_one_group(group_broker: BrokerProcess) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    members: list[Member] = [make(group_broker, group, topic) for make in (ConfluentMember, PythonMember)]
    members.append(AioMember(group_broker, group, topic))
    got: list[bytes] = []
    poll_until(members, shared_by(members), got)
    values = fill(group_broker, topic, 300)
    poll_until(members, lambda: set(got) >= values, got)
    assert sorted(got) == sorted(values)
    for member in members:
        member.commit()
        member.close()


@pytest.mark.proves(client="confluent-kafka", feature="group: cooperative-sticky")
def test_partitions_move_one_by_one_with_the_cooperative_assignor(group_broker: BrokerProcess) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    strategy = {"partition.assignment.strategy": "cooperative-sticky"}
    members = [ConfluentMember(group_broker, group, topic, **strategy)]
    values = fill(group_broker, topic, 200)
    read_all([members[0]], values)
    members[0].commit()
    members.append(ConfluentMember(group_broker, group, topic, **strategy))
    got: list[bytes] = []
    poll_until(members, shared_by(members), got)
    assert set(got) <= values
    for member in members:
        member.close()


@pytest.mark.proves(client="confluent-kafka", feature="static membership")
def test_a_static_member_is_back_without_a_rebalance(group_broker: BrokerProcess) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    stays = ConfluentMember(group_broker, group, topic, **{"group.instance.id": "stays"})
    returns = ConfluentMember(group_broker, group, topic, **{"group.instance.id": "returns"})
    poll_until([stays, returns], shared_by([stays, returns]), [])
    parts, assignments = (stays.assignment(), returns.assignment()), stays.assignments

    returns.close()
    returns = ConfluentMember(group_broker, group, topic, **{"group.instance.id": "returns"})
    poll_until([returns], lambda: bool(returns.assignment()), [])
    values = fill(group_broker, topic, 100)
    got: list[bytes] = []
    poll_until([stays, returns], lambda: set(got) >= values, got)
    assert (stays.assignment(), returns.assignment()) == parts
    assert stays.assignments == assignments
    stays.close()
    returns.close()


@pytest.mark.proves(client="confluent-kafka", feature="static membership")
def test_a_second_client_with_the_instance_id_of_another_fences_it(group_broker: BrokerProcess) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    config = {"group.instance.id": "only-one"}
    old = ConfluentMember(group_broker, group, topic, **config)
    poll_until([old], lambda: bool(old.assignment()), [])
    new = ConfluentMember(group_broker, group, topic, **config)
    poll_until([new], lambda: bool(new.assignment()), [])
    errors = []
    while not errors:
        message = old.consumer.poll(PATIENCE_S)
        assert message is not None, "the fenced member was not told"
        if message.error() is not None:
            errors.append(message.error())
    assert "fenced" in errors[0].str()
    assert new.assignment() == set(range(PARTITIONS))
    new.close()
    old.close()
