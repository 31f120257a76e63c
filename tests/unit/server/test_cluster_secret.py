"""Brokers that were given a secret, and one that was given another: it has the store, and still nobody believes it."""

from pathlib import Path

import pytest

from ottla.server.peer_cluster import PeerCluster
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
