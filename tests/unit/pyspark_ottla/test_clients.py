"""One client per cluster, thread and process."""

import os
import threading

import pytest

from ottla.protocol.messages.fetch import FetchRequest
from pyspark_ottla.batch_reader import OttlaReader
from pyspark_ottla.clients import client_for
from pyspark_ottla.connection import Connection
from pyspark_ottla.read_options import ReadOptions
from tests.unit.client.readable_broker import ReadableBroker

A, B = Connection("a:1"), Connection("b:1")


def test_the_tasks_of_one_worker_share_a_client():
    assert client_for(A) is client_for(Connection("a:1"))


def test_another_cluster_or_other_settings_have_another_client():
    assert client_for(A) is not client_for(B)
    assert client_for(A) is not client_for(Connection("a:1", (("client_id", "x"),)))


def test_another_thread_has_another_client():
    found = []
    thread = threading.Thread(target=lambda: found.append(client_for(A)))
    thread.start()
    thread.join()
    assert found[0] is not client_for(A)


def test_a_forked_worker_does_not_use_the_sockets_of_its_parent(monkeypatch):
    before = client_for(A)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert client_for(A) is not before


@pytest.mark.parametrize(("given", "rack"), [({"kafka.client.rack": "b"}, "b"), ({}, "")])
def test_tasks_tell_the_leader_in_which_rack_they_read(given, rack):
    with ReadableBroker(records=10) as broker:
        options = {"kafka.bootstrap.servers": broker.address, "subscribe": "t", **given}
        reader = OttlaReader(ReadOptions.of(options, streaming=False))
        rows = [batch.num_rows for task in reader.partitions() for batch in reader.read(task)]
        assert sum(rows) == 10
        assert {request.rack_id for request in broker.asked(FetchRequest)} == {rack}
