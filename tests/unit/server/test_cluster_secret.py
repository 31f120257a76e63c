"""Brokers that were given a secret, and one that was given another: it has the store, and still nobody believes it."""

from itertools import pairwise
from pathlib import Path

import pytest

from ottla.server.peer_cluster import PeerCluster
from ottla.settings.definition import InvalidSettingError
from tests.unit.server.whole_cluster import WholeBroker, cluster, member, until

GIVEN = {"cluster.secret": "correct horse battery staple"}


def is_fenced(broker: WholeBroker) -> bool:
    """As far as the controller has told it."""
    peers = broker.server.cluster
    assert isinstance(peers, PeerCluster)
    return peers.heartbeats.is_fenced


async def test_a_broker_with_another_secret_serves_nobody_and_both_sides_say_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, 2, GIVEN) as brokers:
        # Each hears with the answer to a heartbeat of its own what all have read in the metadata.
        await until(lambda: not any(is_fenced(each) for each in brokers))
        async with member(tmp_path, 3, {"cluster.secret": "a guess, which is wrong"}) as third:
            await until(lambda: 3 in brokers[0].image.brokers)
            refusal = "does not believe that this is broker 3"
            await until(lambda: any(refusal in each for each in caplog.messages))
            assert is_fenced(third)
            assert brokers[0].image.brokers[3].fenced
            assert sorted(brokers[1].image.live_brokers()) == [1, 2]
    said = [each for each in caplog.messages if refusal in each and "cannot connect to broker 1" in each]
    assert len(said) == 1
    assert all("horse" not in each and "guess" not in each for each in caplog.messages)


@pytest.mark.parametrize("old", [None, "the secret of until now"])
async def test_brokers_believe_each_other_while_the_secret_is_replaced(tmp_path: Path, old: str | None) -> None:
    new = "the secret from now on"
    first = {} if old is None else {"cluster.secret": old}
    steps = [
        {**first, "cluster.secret.accepted": new},
        {"cluster.secret": new, "cluster.secret.accepted": old or "stored"},
        {"cluster.secret": new},
    ]
    for before, after in pairwise([first, *steps]):
        async with member(tmp_path, 1, before) as one, member(tmp_path, 2, after) as two:
            await until(lambda: sorted(one.image.live_brokers()) == [1, 2])
            await until(lambda: not is_fenced(one) and not is_fenced(two))


async def test_a_secret_that_is_accepted_beside_the_own_one_is_not_short(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match=r"cluster\.secret\.accepted must have at least 16 characters"):
        async with member(tmp_path, 1, {"cluster.secret.accepted": "a short one"}):
            pass
