"""What Spark sends to a worker does not wait for the worker's acknowledgement of what it sent before."""

import pickle
import socket
from collections.abc import Iterator

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_ottla.source import OttlaDataSource
from pyspark_ottla.worker_socket import send_and_acknowledge_at_once

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "topic": "t"}
ROWS = StructType([StructField("value", BinaryType())])


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A worker's end of its connection with the JVM: it keeps acknowledgements for the answer."""
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as jvm:
        accepted, _ = server.accept()
        with accepted:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            assert not at_once(accepted)
            assert jvm.fileno() >= 0
            yield accepted


def at_once(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


def test_a_worker_acknowledges_at_once_and_sends_all_that_it_has(worker):
    send_and_acknowledge_at_once()
    assert at_once(worker)
    assert worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_process_that_is_not_sparks_is_left_alone(worker, monkeypatch):
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_PORT")
    send_and_acknowledge_at_once()
    assert not at_once(worker)


def test_other_descriptors_are_left_alone_and_stay_open(worker):
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(type=socket.SOCK_DGRAM) as datagrams, socket.socket() as new:
        send_and_acknowledge_at_once()
        ours.sendall(b"here")
        assert theirs.recv(4) == b"here"
        assert at_once(worker)
        assert min(datagrams.fileno(), new.fileno()) >= 0
        new.bind(("127.0.0.1", 0))
        datagrams.bind(("127.0.0.1", 0))


def test_the_copy_of_a_reader_that_a_task_gets_has_the_rows_come_at_once(worker):
    source = OttlaDataSource(OPTIONS)
    for reader in (source.reader(source.schema()), source.streamReader(source.schema())):
        worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        planned = pickle.dumps(reader)
        assert not at_once(worker)
        assert type(pickle.loads(planned)) is type(reader)
        assert at_once(worker)


@pytest.mark.parametrize("streaming", [False, True])
def test_the_copy_of_a_writer_that_a_task_gets_has_the_rows_come_at_once(worker, monkeypatch, streaming):
    monkeypatch.setattr("pyspark_ottla.writer.plan", lambda options, driver: "planned")
    source = OttlaDataSource(OPTIONS)
    writer = source.streamWriter(ROWS, False) if streaming else source.writer(ROWS, False)
    planned = pickle.dumps(writer)
    assert not at_once(worker)
    assert pickle.loads(planned)._plan == "planned"
    assert at_once(worker)


def test_what_commits_a_write_sends_the_end_of_its_answer_at_once(worker):
    source = OttlaDataSource(OPTIONS)
    worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    source.streamWriter(ROWS, False).commit([], 0)
    assert worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
