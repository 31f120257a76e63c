"""Pipelines run by the command line: stopped, killed, without their brokers, and what they say then."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass

from ottla.client.blocking import BlockingClient
from ottla.client.partitioner import partition_for_key
from ottla.pipelines.runner.checkpoint import batches
from ottla.pipelines.tables import ParquetTable
from tests.broker_process import BrokerProcess
from tests.system.pipeline_driver import OTTLA, Driver, command
from tests.system.test_pipelines import Broker

pytestmark = pytest.mark.long

_names = count()
IMPATIENT = 'options = { "kafka.default.api.timeout.ms" = "3000", "kafka.request.timeout.ms" = "2000" }'


class Numbers:
    """A pipeline that copies numbers to a topic and to a table; what is none goes to the dead letters."""

    def __init__(self, directory: Path, bootstrap: str, *, at_once: int = 100, step: str = "", more: str = "") -> None:
        self.name = f"run{next(_names)}"
        self.there = Broker(bootstrap)
        self.directory = directory
        self.file = directory / "numbers.toml"
        self.there.create(*(f"{self.name}.{what}" for what in ("in", "out", "dead")))
        self._text = """
name = "NAME"
[sources.events]
topics = ["NAME.in"]
format = "json"
schema = "n int"
group = "NAME"
max_records = AT_ONCE
SOURCE
STEP
[[sinks]]
name = "out"
topic = "NAME.out"
OUT
[[sinks]]
name = "lake"
delta = "lake"
LAKE
[dead_letters]
topic = "NAME.dead"
"""
        self._fields = {"NAME": self.name, "STEP": step, "SOURCE": "", "OUT": "", "LAKE": "", "AT_ONCE": str(at_once)}
        self.write()

    def write(self, **fields: str) -> None:
        """The file, with other words in some places."""
        self._fields.update(fields)
        text = self._text
        for name, value in self._fields.items():
            text = text.replace(name, value)
        self.file.write_text(text)

    def produce(self, numbers: range) -> None:
        values: list[bytes | None] = [b"bad" if n % 10 == 0 else json.dumps({"n": n}).encode() for n in numbers]
        self.there.produce(f"{self.name}.in", values)

    def run(self, *arguments: str) -> Driver:
        return Driver(self.file, self.there.bootstrap, *arguments)

    def run_to_the_end(self) -> None:
        self.write(AT_ONCE="1_000_000")
        with self.run("--until-caught-up") as driver:
            assert driver.wait() == 0, driver.stderr

    def checkpoint(self, sink: str) -> Path:
        return self.directory / "checkpoints" / self.name / sink

    def table(self) -> list[int]:
        return sorted(DeltaTable(self.directory / "lake").to_pyarrow_table()["n"].to_pylist())

    def require_each_once(self, numbers: range) -> None:
        good, bad = [n for n in numbers if n % 10], len([n for n in numbers if n % 10 == 0])
        assert sorted(json.loads(value)["n"] for value in self.there.values(f"{self.name}.out")) == good
        assert self.table() == good
        # The first sink of the file writes the dead letters of both.
        assert len(self.there.consume(f"{self.name}.dead")) == bad

    def transactions(self) -> Counter[str]:
        """How many of its transactions are in which state."""
        with BlockingClient(self.there.bootstrap) as client:
            ids = (f"{self.name}.out", f"{self.name}.lake.dead-letters")
            found = [client.transactions(each).describe() for each in ids]
        return Counter(each.state for each in found if each is not None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_pipeline_between_two_micro_batches(broker: BrokerProcess, tmp_path: Path, number: int) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap, at_once=50)
    numbers.produce(range(5_000))
    with numbers.run() as driver:
        driver.until_rows(150)
        lag = json.loads(command("lag", numbers.file, broker.bootstrap, "--json").stdout)
        assert {(each["sink"], each["partition"], each["end"]) for each in lag} == {
            (sink, *place) for sink in ("out", "lake") for place in ((0, 5_000), (1, 0))
        }
        assert all(each["position"] + each["lag"] == each["end"] for each in lag)
        driver.send(number)
        assert driver.wait() == 128 + number
        assert driver.stderr == ""
    queries = {f"{numbers.name}.out", f"{numbers.name}.lake"}
    for kind in ("stopping", "stopped"):
        assert {event["query"] for event in driver.events if event["event"] == kind} == queries
    assert {event["reason"] for event in driver.events if event["event"] == "stopped"} == {None}
    for sink in ("out", "lake"):
        assert [each.done for each in batches(numbers.checkpoint(sink))] == [True, True]
    assert set(numbers.transactions()) == {"CompleteCommit"}
    numbers.run_to_the_end()
    numbers.require_each_once(range(5_000))


GATE = """
from pathlib import Path

HERE = Path(__file__).parent


def held(rows):
    directory = str(HERE)

    def wait(batches):
        import time
        from pathlib import Path

        Path(directory, "entered").touch()
        while not Path(directory, "open").exists():
            time.sleep(0.05)
        yield from batches

    return rows.mapInArrow(wait, rows.schema)
"""


def test_a_second_signal_ends_a_micro_batch_that_takes_for_ever(broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text(GATE)
    step = '[[steps]]\nname = "held"\npython = "gate:held"'
    numbers = Numbers(tmp_path, broker.bootstrap, step=step)
    numbers.produce(range(50))
    with numbers.run() as driver:
        while not (tmp_path / "entered").exists():
            assert driver.is_running, driver.stderr
        driver.send(signal.SIGINT)
        driver.until_event("stopping")
        driver.send(signal.SIGINT)
        assert driver.wait() == 130
        assert "Traceback" not in driver.stderr
    (tmp_path / "open").touch()
    numbers.run_to_the_end()
    numbers.require_each_once(range(50))


def test_brokers_that_are_away_are_waited_for(new_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    broker = new_broker().start()
    numbers = Numbers(tmp_path, broker.bootstrap)
    numbers.write(SOURCE=IMPATIENT, OUT=IMPATIENT)
    numbers.produce(range(500))
    queries = {f"{numbers.name}.out", f"{numbers.name}.lake"}
    with numbers.run() as driver:
        driver.until_rows(500)
        broker.kill()
        waiting = {driver.until_event("waiting")["query"] for _ in queries}
        broker.start()
        returned = {driver.until_event("returned")["query"] for _ in queries}
        numbers.produce(range(500, 1000))
        driver.until_rows(500)
        driver.send(signal.SIGTERM)
        assert driver.wait() == 143
        assert driver.stderr == ""
    assert waiting == returned == queries
    assert not [event for event in driver.events if event["event"] in ("restart", "failed")]
    numbers.run_to_the_end()
    numbers.require_each_once(range(1000))


KILL = """
import os
import signal
from pathlib import Path

from ottla.pipelines.tables import DeltaSink

LEFT = Path(__file__).with_name("left")


def copied(rows):
    return rows


def kill_once(when, batch_id):
    if LEFT.exists() and LEFT.read_text() == f"{when} {batch_id}":
        LEFT.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def killed(write):
    def killing(self, frame, batch_id):
        kill_once("before", batch_id)
        done = write(self, frame, batch_id)
        kill_once("after", batch_id)
        return done

    return killing


DeltaSink.write = killed(DeltaSink.write)
"""


def test_a_driver_killed_before_and_after_the_commit_of_a_delta_table_writes_each_row_once(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    (tmp_path / "crash.py").write_text(KILL)
    numbers = Numbers(tmp_path, broker.bootstrap, step='[[steps]]\nname = "copied"\npython = "crash:copied"')
    numbers.write(LAKE='compact = { every = "1 ms", target = "1 MB" }')
    numbers.produce(range(600))
    for kill in ("before 1", "after 3"):
        (tmp_path / "left").write_text(kill)
        with numbers.run("--until-caught-up") as driver:
            assert driver.wait() == -signal.SIGKILL
    with numbers.run("--until-caught-up") as driver:
        assert driver.wait() == 0, driver.stderr
        assert driver.stderr == ""
    numbers.require_each_once(range(600))
    table = DeltaTable(tmp_path / "lake")
    operations = Counter(each["operation"] for each in table.history())
    assert operations["OPTIMIZE"] >= 2
    assert len(table.file_uris()) < operations["WRITE"]


def rows_of_parquet(directory: Path) -> list[dict[str, Any]]:
    files = ParquetTable.open(str(directory)).files()
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_sinks_with_state_go_back_and_forget_what_they_had_seen(broker: BrokerProcess, tmp_path: Path) -> None:
    name = f"run{next(_names)}"
    there = Broker(broker.bootstrap)
    there.create(*(f"{name}.{what}" for what in ("in", "once", "dead")))
    file = tmp_path / "p.toml"
    file.write_text(
        f"""
name = "{name}"
[sources.events]
topics = ["{name}.in"]
format = "json"
schema = "id int, at timestamp"
start = "latest"
[[steps]]
name = "once"
deduplicate = {{ by = ["id"], within = "1 day", time = "at" }}
[[steps]]
name = "hourly"
window = {{ time = "at", every = "1 hour", aggregate = {{ n = "count(*)" }} }}
input = "events"
[[sinks]]
name = "ids"
input = "once"
topic = "{name}.once"
value = "cast(id as string)"
[[sinks]]
name = "lake"
input = "hourly"
parquet = "lake"
[dead_letters]
topic = "{name}.dead"
"""
    )

    def run() -> None:
        with Driver(file, there.bootstrap, "--until-caught-up") as driver:
            assert driver.wait() == 0, driver.stderr

    def event(number: int, hour: int) -> bytes:
        return json.dumps({"id": number, "at": f"2013-01-01T{hour:02}:00:00Z"}).encode()

    unused = command("reset", file, there.bootstrap, "--to", "earliest", "--execute")
    assert (unused.returncode, unused.stderr.count("\n")) == (1, 1)
    there.produce(f"{name}.in", [event(1, 1)])
    file.write_text(file.read_text().replace('start = "latest"', 'start = "earliest"'))
    run()
    there.produce(f"{name}.in", [event(1, 1), event(2, 1), event(3, 5), b"bad"])
    run()
    assert there.values(f"{name}.once") == ["1", "2", "3"]
    assert [row["n"] for row in rows_of_parquet(tmp_path / "lake")] == [3]
    shown = command("reset", file, there.bootstrap, "--to", "earliest")
    assert "nothing was changed" in shown.stderr
    run()
    assert len(there.consume(f"{name}.once")) == 3
    done = command("reset", file, there.bootstrap, f"{name}.in:0=1", "--execute")
    assert done.returncode == 0, done.stderr
    assert "its state (once: deduplicate by id) is thrown away" in done.stderr
    moved = json.loads(command("lag", file, there.bootstrap, "--json").stdout)
    assert {(each["sink"], each["partition"], each["position"]) for each in moved} == {
        ("ids", 0, 1),
        ("ids", 1, 0),
        ("lake", 0, 1),
        ("lake", 1, 0),
    }
    run()
    run()
    assert Counter(there.values(f"{name}.once")) == {"1": 2, "2": 2, "3": 2}
    assert sorted(row["n"] for row in rows_of_parquet(tmp_path / "lake")) == [2, 3]
    assert len(there.consume(f"{name}.dead")) == 2


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
}
FORMATS = """
name = "NAME"
[sources.orders]
topics = ["NAME.in"]
SOURCE
[[sinks]]
name = "out"
topic = "NAME.out"
[dead_letters]
topic = "NAME.dead"
[[tests]]
name = "orders come out"
given.orders = [{ id = 7, item = "tea" }, "nothing of that kind"]
expect.out = [{ id = 7, item = "tea" }]
dead_letters = [{ step = "orders", value = "nothing of that kind" }]
"""


class Registry(BaseHTTPRequestHandler):
    """A schema registry that knows one schema, by the id 7."""

    def do_GET(self) -> None:
        known = self.path in ("/subjects/orders/versions/latest", "/schemas/ids/7")
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"id": 7, "schema": json.dumps(ORDER)} if known else {}).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def avro(row: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, ORDER, row)
    return buffer.getvalue()


def protobuf(directory: Path) -> Callable[[dict[str, Any]], bytes]:
    """Writes `order.desc`, as protoc would, and gives what encodes its message."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=kind.TYPE_INT64, label=kind.LABEL_OPTIONAL)
    order.field.add(name="item", number=2, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
    (directory / "order.desc").write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return lambda row: bytes(message(**row).SerializeToString())


@pytest.mark.parametrize("kind", ["avro", "avro-registry", "protobuf"])
def test_records_of_avro_and_protobuf_come_out_and_others_are_dead_letters(
    broker: BrokerProcess, tmp_path: Path, registry: str, kind: str
) -> None:
    name = f"run{next(_names)}"
    there = Broker(broker.bootstrap)
    there.create(*(f"{name}.{what}" for what in ("in", "out", "dead")))
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    of_protobuf = protobuf(tmp_path)
    source, encode = {
        "avro": ('format = "avro"\nschema = "order.avsc"', avro),
        "avro-registry": (
            f'format = "avro"\noptions = {{ schemaRegistry = "{registry}", valueSubject = "orders" }}',
            lambda row: b"\0\0\0\0\7" + avro(row),
        ),
        "protobuf": (
            'format = "protobuf"\nschema = "order.desc"\noptions = { valueMessage = "shop.Order" }',
            of_protobuf,
        ),
    }[kind]
    file = tmp_path / "orders.toml"
    file.write_text(FORMATS.replace("NAME", name).replace("SOURCE", source))
    orders = [{"id": 1, "item": "cup"}, {"id": 2, "item": "é"}]
    there.produce(f"{name}.in", [encode(orders[0]), b"\xff\xff\xff", encode(orders[1]), None])
    with Driver(file, there.bootstrap, "--until-caught-up") as driver:
        assert driver.wait() == 0, driver.stderr
    assert [json.loads(value) for value in there.values(f"{name}.out")] == orders
    letters = {message.value(): dict(message.headers()) for message in there.consume(f"{name}.dead")}
    assert set(letters) == {b"\xff\xff\xff", None}
    assert {headers["__ottla.errors.step"] for headers in letters.values()} == {b"orders"}
    assert all(headers["__ottla.errors.message"] for headers in letters.values())
    tested = subprocess.run([*OTTLA, "test", str(file)], capture_output=True, text=True, check=False)
    assert (tested.returncode, tested.stdout) == (0, "ok  orders come out\n1 of 1 tests passed\n"), tested.stderr
    refused = command("inspect", file, there.bootstrap, "orders", "--refused", "--json")
    assert refused.stderr == ""
    rows = [json.loads(line) for line in refused.stdout.splitlines()]
    assert {row["_record"].get("value") for row in rows} == {"base64:////", None}


def failed(driver: Driver) -> tuple[int, list[str]]:
    """The exit code of a driver that stops for good, and what it said on stderr."""
    code = driver.wait()
    return code, driver.stderr.splitlines()


def test_what_cannot_work_is_said_in_one_line(broker: BrokerProcess, tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap)
    numbers.produce(range(20))
    numbers.run_to_the_end()
    good = numbers.file.read_text()
    # A checkpoint of something else.
    numbers.file.write_text(good.replace("schema", 'max_bytes = "1 MB"\nschema').replace(".in", ".other"))
    numbers.there.create(f"{numbers.name}.other")
    with numbers.run("--until-caught-up") as driver:
        code, said = failed(driver)
        assert (code, len(said)) == (1, 1), said
        assert "does not fit: it read events" in said[0]
    # Rows that do not fit the table that is there; the other sink goes on.
    numbers.file.write_text(good.replace("n int", "n bigint"))
    numbers.there.produce(f"{numbers.name}.in", [b'{"n": 21}'])
    with numbers.run("--until-caught-up") as driver:
        code, said = failed(driver)
        assert (code, len(said)) == (1, 1), said
        assert "column n is bigint, the table has int" in said[0]
        assert driver.events[-1]["event"] in ("failed", "finished")
    assert len(numbers.there.values(f"{numbers.name}.out")) == 19
    numbers.file.write_text(good)
    numbers.run_to_the_end()
    assert numbers.table()[-1] == 21
    assert len(numbers.there.values(f"{numbers.name}.out")) == 19


@pytest.mark.parametrize("sink", ["out", "lake"])
def test_a_topic_that_is_not_there_is_named(broker: BrokerProcess, tmp_path: Path, sink: str) -> None:
    name = f"run{next(_names)}"
    there = Broker(broker.bootstrap)
    missing = f"{name}.{'out' if sink == 'out' else 'in'}"
    there.create(f"{name}.{'in' if sink == 'out' else 'out'}")
    file = tmp_path / "p.toml"
    file.write_text(
        f'name = "{name}"\n[sources.events]\ntopics = ["{name}.in"]\nformat = "text"\n'
        f'[[sinks]]\nname = "out"\ntopic = "{name}.out"\n'
    )
    if sink == "out":
        there.produce(f"{name}.in", [b"x"])
    with Driver(file, there.bootstrap, "--until-caught-up") as driver:
        code, said = failed(driver)
    assert (code, len(said)) == (1, 1), said
    assert f"{missing}" in said[0]
    assert "does not exist" in said[0]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 1 MB."""
    directory = tmp_path / "small"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)], check=True)
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(directory: Path) -> Path:
    """A file that takes all the room that is left."""
    filler = directory / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(directory).free))
    return filler


@pytest.mark.parametrize("what", ["table", "checkpoints"])
def test_a_disk_that_is_full_is_said_and_when_there_is_room_it_goes_on(
    broker: BrokerProcess, tmp_path: Path, small_disk: Path, what: str
) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap)
    text = numbers.file.read_text()
    if what == "table":
        numbers.file.write_text(text.replace('delta = "lake"', 'delta = "small/lake"'))
    else:
        numbers.file.write_text(text.replace("[sources.events]", 'checkpoints = "small"\n[sources.events]'))
    numbers.produce(range(100))
    with numbers.run() as driver:
        driver.until_rows(100)
        filler = fill(small_disk)
        numbers.produce(range(100, 200))
        told = driver.until_event("restart", f"{numbers.name}.lake")
        assert "o space left on" in told["reason"]
        filler.unlink()
        driver.until_rows(100)
        driver.send(signal.SIGTERM)
        assert driver.wait() == 143
        assert "Traceback" not in driver.stderr
    if what == "table":
        (tmp_path / "lake").symlink_to(small_disk / "lake")
    numbers.require_each_once(range(200))


def test_a_replay_is_compared_and_becomes_production(broker: BrokerProcess, tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap)
    numbers.produce(range(300))
    numbers.run_to_the_end()
    old, there = numbers.file.read_text(), numbers.there.bootstrap
    new = tmp_path / "new.toml"
    step = '[[steps]]\nname = "kept"\nsql = "select if(n = 7, 1007, n) as n from events where n != 8"\n[[sinks]]'
    new.write_text(old.replace("[[sinks]]", step, 1))
    replayed = command("replay", new, there, "--into", "v2", "--memory", "512m", "--json")
    assert (replayed.returncode, replayed.stderr) == (0, "")
    compared = command("diff", new, there, "--side", "v2", "--key", "n", "--json")
    assert compared.returncode == 1
    for found in json.loads(compared.stdout):
        assert (found["equal"], found["different"], found["only_here"], found["only_there"]) == (268, 0, 1, 2)
    # Production goes on while the new version is looked at.
    numbers.produce(range(300, 400))
    promoted = command("replay", new, there, "--into", "v2", "--promote", "--execute", "--json")
    assert promoted.returncode == 0, promoted.stderr
    assert {(each["group"], each["partition"], each["new"]) for each in json.loads(promoted.stdout)} == {
        (numbers.name, 0, 300),
        (numbers.name, 1, 0),
        (f"{numbers.name}.lake", 0, 300),
        (f"{numbers.name}.lake", 1, 0),
    }
    # The new version begins where the replay ended: with a name of its own, as its steps are others.
    later = tmp_path / "later.toml"
    text = new.read_text().replace(f'name = "{numbers.name}"', f'name = "{numbers.name}b"')
    text = text.replace("max_records", 'start = "group"\nmax_records').replace('delta = "lake"', 'delta = "lake2"')
    later.write_text(text)
    with Driver(later, there, "--until-caught-up") as driver:
        assert driver.wait() == 0, driver.stderr
    copied = sorted(json.loads(value)["n"] for value in numbers.there.values(f"{numbers.name}.out"))
    assert copied == [n for n in range(400) if n % 10]


def test_several_tasks_write_one_transaction_and_keep_the_order_of_a_key(broker: BrokerProcess, tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap, at_once=1000)
    numbers.write(OUT='tasks = 2\nkey = "n % 7"')
    numbers.produce(range(5000))
    with numbers.run() as driver:
        driver.until_rows(2000)
        driver.kill()
    numbers.run_to_the_end()
    numbers.require_each_once(range(5000))
    by_key: dict[bytes, list[int]] = {}
    for message in numbers.there.consume(f"{numbers.name}.out"):
        assert message.partition() == partition_for_key(message.key(), 2)
        by_key.setdefault(message.key(), []).append(json.loads(message.value())["n"])
    assert len(by_key) == 7
    assert all(found == sorted(found) for found in by_key.values())
