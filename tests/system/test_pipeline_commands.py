"""Commands on pipelines, one after the other as a user gives them, in one process with one session of Spark."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import SparkSession

from ottla.cli import pipeline_run
from ottla.cli.main import run as run_command
from ottla.client.producing.partitioner import partition_for_key
from ottla.pipelines.compiler.python_modules import CallError, StepError
from ottla.pipelines.live_view import JsonLines
from ottla.pipelines.runner import running
from ottla.pipelines.runner.queries import Running, limits_of, start
from ottla.pipelines.session import Session
from ottla.pipelines.spec import read
from ottla.pipelines.tables import ParquetTable
from tests.broker_process import BrokerProcess
from tests.system.numbers_pipeline import Numbers, new_name
from tests.system.spark_session import pipeline_session
from tests.system.test_pipelines import Broker
from tests.waiting_lines import without_waiting

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with pipeline_session(tmp_path_factory.mktemp("spark")) as made:
        yield made


class Ran(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What it said in JSON."""
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it said in JSON line by line."""
        return [json.loads(line) for line in self.out.splitlines()]


Ottla = Callable[..., Ran]


@pytest.fixture
def ottla(
    spark: Session, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ottla:
    """`ottla pipeline ...` on the session that is there."""

    @contextmanager
    def session(*_: object, **__: object) -> Iterator[Session]:
        yield spark

    @contextmanager
    def spark_session(*_: object) -> Iterator[SparkSession]:
        yield spark.spark

    monkeypatch.setattr(running, "session", session)
    monkeypatch.setattr(pipeline_run, "spark_session", spark_session)

    def run(name: str, file: Path, *arguments: str) -> Ran:
        where = [] if name == "test" else ["-b", broker.bootstrap]
        capsys.readouterr()
        code = run_command(["pipeline", name, str(file), *where, *arguments])
        said = capsys.readouterr()
        return Ran(code, said.out, without_waiting(said.err))

    return run


def run_to_the_end(ottla: Ottla, file: Path) -> None:
    ran = ottla("run", file, "--until-caught-up", "--json")
    assert (ran.code, ran.err) == (0, ""), ran


def rows_of_parquet(directory: Path) -> list[dict[str, Any]]:
    files = ParquetTable.open(str(directory)).files()
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_sinks_with_state_go_back_and_forget_what_they_had_seen(
    ottla: Ottla, broker: BrokerProcess, tmp_path: Path
) -> None:
    name = new_name()
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
        run_to_the_end(ottla, file)

    def event(number: int, hour: int) -> bytes:
        return json.dumps({"id": number, "at": f"2013-01-01T{hour:02}:00:00Z"}).encode()

    unused = ottla("reset", file, "--to", "earliest", "--execute")
    assert (unused.code, unused.err.count("\n")) == (1, 1)
    there.produce(f"{name}.in", [event(1, 1)])
    file.write_text(file.read_text().replace('start = "latest"', 'start = "earliest"'))
    run()
    there.produce(f"{name}.in", [event(1, 1), event(2, 1), event(3, 5), b"bad"])
    run()
    assert there.values(f"{name}.once") == ["1", "2", "3"]
    assert [row["n"] for row in rows_of_parquet(tmp_path / "lake")] == [3]
    shown = ottla("reset", file, "--to", "earliest")
    assert "nothing was changed" in shown.err
    run()
    assert len(there.consume(f"{name}.once")) == 3
    # One sink that cannot be moved keeps the others where they are.
    before = ottla("lag", file, "--json").document
    text = file.read_text()
    file.write_text(text.replace("[dead_letters]", f'[[sinks]]\nname = "new"\ntopic = "{name}.new"\n[dead_letters]'))
    none = ottla("reset", file, f"{name}.in:0=1", "--execute")
    assert (none.code, "sink new: it has not run yet" in none.err) == (1, True), none
    file.write_text(text)
    assert [each["position"] for each in ottla("lag", file, "--json").document] == [each["position"] for each in before]
    done = ottla("reset", file, f"{name}.in:0=1", "--execute")
    assert done.code == 0, done
    assert "its state (once: deduplicate by id, times of any year) is discarded" in done.err
    moved = ottla("lag", file, "--json").document
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
    ottla: Ottla, broker: BrokerProcess, tmp_path: Path, registry: str, kind: str
) -> None:
    name = new_name()
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
    run_to_the_end(ottla, file)
    assert [json.loads(value) for value in there.values(f"{name}.out")] == orders
    letters = {message.value(): dict(message.headers()) for message in there.consume(f"{name}.dead")}
    assert set(letters) == {b"\xff\xff\xff", None}
    assert {headers["__ottla.errors.step"] for headers in letters.values()} == {b"orders"}
    assert all(headers["__ottla.errors.message"] for headers in letters.values())
    tested = ottla("test", file)
    first, drop, last = tested.out.splitlines()
    assert (tested.code, first, last) == (0, "ok  orders come out", "1 of 1 tests passed"), tested
    assert drop.startswith("        orders: production sets 1 row aside: dead letter: the value is not "), tested
    refused = ottla("inspect", file, "orders", "--refused", "--json")
    assert refused.err.startswith("orders: production sets 2 rows aside: dead letter: "), refused
    assert {row["_record"].get("value") for row in refused.events} == {"base64:////", None}


def failed(ottla: Ottla, file: Path) -> tuple[Ran, str]:
    """A run that stops for good, and the one line that it says on stderr."""
    ran = ottla("run", file, "--until-caught-up", "--json")
    assert (ran.code, ran.err.count("\n")) == (1, 1), ran
    return ran, ran.err


def test_what_does_not_fit_is_said_in_one_line_and_nothing_is_lost(
    ottla: Ottla, broker: BrokerProcess, tmp_path: Path
) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap)
    numbers.produce(range(20))
    run_to_the_end(ottla, numbers.file)
    good = numbers.file.read_text()
    numbers.there.create(f"{numbers.name}.other")
    numbers.file.write_text(good.replace(".in", ".other"))
    _, said = failed(ottla, numbers.file)
    assert f"does not fit: it read events ({numbers.name}.in), not events ({numbers.name}.other)" in said
    # Rows that do not fit the table that is there; the other sink goes on.
    numbers.file.write_text(good.replace("n int", "n bigint"))
    numbers.there.produce(f"{numbers.name}.in", [b'{"n": 21}'])
    ran, said = failed(ottla, numbers.file)
    assert f"failed: {numbers.name}.lake" in said
    assert "column n is bigint, the table has int" in said
    assert {event["query"]: event["event"] for event in ran.events if event["event"] in ("finished", "failed")} == {
        f"{numbers.name}.out": "finished",
        f"{numbers.name}.lake": "failed",
    }
    numbers.file.write_text(good)
    run_to_the_end(ottla, numbers.file)
    assert numbers.table()[-1] == 21
    assert len(numbers.there.values(f"{numbers.name}.out")) == 19


@pytest.mark.parametrize("missing", ["in", "out"])
def test_a_topic_that_is_not_there_is_named(ottla: Ottla, broker: BrokerProcess, tmp_path: Path, missing: str) -> None:
    name, there = new_name(), Broker(broker.bootstrap)
    there.create(f"{name}.{'out' if missing == 'in' else 'in'}")
    file = tmp_path / "p.toml"
    file.write_text(
        f'name = "{name}"\n[sources.events]\ntopics = ["{name}.in"]\nformat = "text"\n'
        f'[[sinks]]\nname = "out"\ntopic = "{name}.out"\n'
    )
    if missing == "out":
        there.produce(f"{name}.in", [b"x"])
    _, said = failed(ottla, file)
    assert f"{name}.{missing}' does not exist on the broker: check the name, or create the topic first" in said
    assert said.startswith(f"ottla: failed: {name}.out: ")
    there.create(f"{name}.{missing}")
    run_to_the_end(ottla, file)


@pytest.mark.parametrize("missing", ["out", "dead"])
def test_a_topic_that_is_written_to_must_exist_before_anything_is_read(
    broker: BrokerProcess, tmp_path: Path, missing: str
) -> None:
    name, there = new_name(), Broker(broker.bootstrap)
    there.create(f"{name}.{'dead' if missing == 'out' else 'out'}")
    file = tmp_path / "p.toml"
    file.write_text(
        f'name = "{name}"\n[sources.events]\ntopics = ["{name}.in"]\n[[sinks]]\nname = "out"\ntopic = "{name}.out"\n'
        f'[dead_letters]\ntopic = "{name}.dead"\n'
    )
    spec = read(file)
    with pytest.raises(StepError, match=rf"sink out: topic '{name}.{missing}' does not exist on the broker"):
        limits_of(spec, spec.sinks[0], there.bootstrap)
    there.create(f"{name}.{missing}")
    assert set(limits_of(spec, spec.sinks[0], there.bootstrap)) == {f"{name}.out", f"{name}.dead"}


MISTAKES = {
    'sql = "select id, count(*) as n from events group by id"': (
        "sink out: [STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION]",
        'rows are counted by a `window` step, or, without a time, for a topic with output = "update"',
    ),
    'expect = [{ name = "named", check = "item" }]': (
        "step a: the check of named must be true or false, and is string: item",
    ),
    'deduplicate = { by = ["nope"], within = "1 day", time = "at" }': ("step a: [", "among (id, item, at)"),
    'python = "functions:raises"': ("step a: functions:raises raised KeyError: 'colour' (functions.py:3)",),
    'state = { python = "functions:Half", by = ["item"], schema = "item string" }': (
        "step a: functions:Half is no StatefulProcessor",
    ),
}
FUNCTIONS = """
def raises(events):
    return {}["colour"]


class Half:
    pass
"""


@pytest.mark.parametrize("step", MISTAKES)
def test_what_is_wrong_with_a_step_is_told_with_its_place(
    spark: Session, broker: BrokerProcess, tmp_path: Path, step: str
) -> None:
    name, there = new_name(), Broker(broker.bootstrap)
    there.create(f"{name}.in", f"{name}.out")
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    file = tmp_path / "p.toml"
    file.write_text(
        f"""name = "{name}"
[sources.events]
topics = ["{name}.in"]
format = "json"
schema = "id int, item string, at timestamp"
[[steps]]
name = "a"
{step}
[[sinks]]
name = "out"
topic = "{name}.out"
"""
    )
    spec = read(file)
    with pytest.raises((StepError, CallError)) as raised:
        start(Running(spark.spark.newSession(), broker.bootstrap, until_caught_up=True), spec, spec.sinks[0])
    line = 9 if "sink out" in str(raised.value) else 8
    assert str(raised.value).startswith(f"{file}:{line}: "), raised.value
    assert all(words in str(raised.value) for words in MISTAKES[step]), raised.value


FAILS_AT_FIRST = """
from pathlib import Path

from pyspark.sql import functions as f

LEFT = Path(__file__).with_name("left")


@f.udf("int")
def same(n):
    left = len(LEFT.read_text())
    if left:
        LEFT.write_text("x" * (left - 1))
        raise OSError("the model is not loaded yet")
    return n


def scored(events):
    return events.withColumn("n", same("n"))
"""


def test_of_two_pipelines_one_fails_for_good_and_the_other_is_started_again(
    ottla: Ottla, broker: BrokerProcess, tmp_path: Path
) -> None:
    name, there = new_name(), Broker(broker.bootstrap)
    there.create(*(f"{name}.{what}" for what in ("in", "scored", "checked")))
    (tmp_path / "model.py").write_text(FAILS_AT_FIRST.replace("__file__", repr(str(tmp_path / "model.py"))))
    # As often as Spark tries a task.
    (tmp_path / "left").write_text("xxxx")
    files = []
    for kind, step in (
        ("scored", 'python = "model:scored"'),
        ("checked", 'expect = [{ name = "small", check = "n < 5", on_fail = "fail" }]'),
    ):
        files.append(tmp_path / f"{kind}.toml")
        files[-1].write_text(
            f"""
name = "{name}-{kind}"
[sources.events]
topics = ["{name}.in"]
format = "json"
schema = "n int"
[[steps]]
name = "a"
{step}
[[sinks]]
name = "out"
topic = "{name}.{kind}"
value = "cast(n as string)"
"""
        )
    there.produce(f"{name}.in", [b'{"n": %d}' % n for n in range(10)])
    ran = ottla("run", files[0], str(files[1]), "--until-caught-up", "--json")
    assert (ran.code, ran.err.count("\n")) == (1, 1), ran
    assert f"failed: {name}-checked.out: expectation failed: step a: small: not n < 5" in ran.err
    told = [(each["query"], each["event"], each.get("reason")) for each in ran.events if each["event"] != "batch"]
    assert (f"{name}-scored.out", "restart", "OSError: the model is not loaded yet") in told
    assert (f"{name}-scored.out", "finished", None) in told
    assert there.values(f"{name}.scored") == [str(n) for n in range(10)]
    assert there.values(f"{name}.checked") == []


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
    spark: Session, ottla: Ottla, broker: BrokerProcess, tmp_path: Path, small_disk: Path, what: str
) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap)
    text = numbers.file.read_text()
    if what == "table":
        numbers.file.write_text(text.replace('delta = "lake"', 'delta = "small/lake"'))
    else:
        numbers.file.write_text(text.replace("[sources.events]", 'checkpoints = "small"\n[sources.events]'))
    numbers.produce(range(100))
    run_to_the_end(ottla, numbers.file)
    numbers.produce(range(100, 200))
    filler = fill(small_disk)
    reasons = []

    def make_room(line: str) -> None:
        event = json.loads(line)
        if event["event"] == "restart":
            reasons.append(event["reason"])
            filler.unlink(missing_ok=True)

    options = running.RunOptions({numbers.name: broker.bootstrap}, until_caught_up=True)
    outcome = running.supervise(spark.spark, [read(numbers.file)], options, JsonLines(make_room))
    assert outcome.failed == []
    assert reasons
    assert all("o space left on" in each for each in reasons), reasons
    if what == "table":
        (tmp_path / "lake").symlink_to(small_disk / "lake")
    numbers.require_each_once(range(200))


def test_a_replay_is_compared_and_becomes_production(ottla: Ottla, broker: BrokerProcess, tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap)
    numbers.produce(range(300))
    run_to_the_end(ottla, numbers.file)
    old = numbers.file.read_text()
    new = tmp_path / "new.toml"
    step = '[[steps]]\nname = "kept"\nsql = "select if(n = 7, 1007, n) as n from events where n != 8"\n[[sinks]]'
    new.write_text(old.replace("[[sinks]]", step, 1))
    replayed = ottla("replay", new, "--into", "v2", "--memory", "512m", "--json")
    assert (replayed.code, replayed.err) == (0, "")
    compared = ottla("diff", new, "--side", "v2", "--key", "n", "--json")
    assert compared.code == 1
    for found in compared.document:
        assert (found["equal"], found["different"], found["only_here"], found["only_there"]) == (268, 0, 1, 2)
    # Production goes on while the new version is looked at.
    numbers.produce(range(300, 400))
    promoted = ottla("replay", new, "--into", "v2", "--promote", "--execute", "--json")
    assert promoted.code == 0, promoted
    assert {(each["group"], each["partition"], each["new"]) for each in promoted.document} == {
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
    run_to_the_end(ottla, later)
    copied = sorted(json.loads(value)["n"] for value in numbers.there.values(f"{numbers.name}.out"))
    assert copied == [n for n in range(400) if n % 10]


def test_several_tasks_write_one_transaction_and_keep_the_order_of_a_key(
    ottla: Ottla, broker: BrokerProcess, tmp_path: Path
) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap, at_once=300)
    numbers.write(OUT='tasks = 2\nkey = "n % 7"')
    numbers.produce(range(1000))
    run_to_the_end(ottla, numbers.file)
    # As after a driver that died between our commit and Spark's.
    for name in ("3", ".3.crc"):
        (numbers.checkpoint("out") / "commits" / name).unlink()
    numbers.produce(range(1000, 1500))
    run_to_the_end(ottla, numbers.file)
    numbers.require_each_once(range(1500))
    by_key: dict[bytes, list[int]] = {}
    for message in numbers.there.consume(f"{numbers.name}.out"):
        assert message.partition() == partition_for_key(message.key(), 2)
        by_key.setdefault(message.key(), []).append(json.loads(message.value())["n"])
    assert len(by_key) == 7
    assert all(found == sorted(found) for found in by_key.values())


def test_a_table_is_compacted_on_schedule_over_several_runs(
    ottla: Ottla, broker: BrokerProcess, tmp_path: Path
) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap, at_once=10)
    numbers.write(LAKE='compact = { every = "1 ms", target = "1 MB" }')
    for first in (0, 50):
        numbers.produce(range(first, first + 50))
        run_to_the_end(ottla, numbers.file)
    numbers.require_each_once(range(100))
    table = DeltaTable(tmp_path / "lake")
    operations = Counter(each["operation"] for each in table.history())
    assert operations["OPTIMIZE"] >= 2
    assert len(table.file_uris()) < operations["WRITE"]


def test_windows_that_overlap_have_each_row_once_that_did_not_come_too_late(
    ottla: Ottla, broker: BrokerProcess, tmp_path: Path
) -> None:
    name, there = new_name(), Broker(broker.bootstrap)
    there.create(f"{name}.in", f"{name}.out")
    file = tmp_path / "readings.toml"
    file.write_text(
        f"""
name = "{name}"
[sources.readings]
topics = ["{name}.in"]
format = "json"
schema = "device string, at timestamp"
[[steps]]
name = "counts"
[steps.window]
time = "AT"
every = "10 minutes"
slide = "5 minutes"
late = "20 minutes"
by = ["device"]
aggregate = {{ n = "count(*)" }}
[[sinks]]
name = "out"
topic = "{name}.out"
key = "device"
"""
    )
    expected: Counter[tuple[int, str]] = Counter()
    newest = -1_000

    def come(*minutes: int) -> None:
        """A micro-batch of readings, and what a window that is not complete yet has of them."""
        nonlocal newest
        readings = [(minute, f"d{minute % 3}") for minute in minutes]
        expected.update(
            (begin, device)
            for minute, device in readings
            for begin in range(minute // 5 * 5 - 5, minute + 1, 5)
            if begin + 10 > newest - 20
        )
        newest = max(newest, *minutes)
        there.produce(
            f"{name}.in",
            [
                json.dumps({"device": device, "at": f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z"}).encode()
                for minute, device in readings
            ],
        )
        run_to_the_end(ottla, file)

    come(*range(60))
    come(45, 30, 10, 58)
    come(600)
    found = Counter(
        {
            (minutes_of(row["window_start"]), row["device"]): row["n"]
            for row in map(json.loads, there.values(f"{name}.out"))
        }
    )
    assert found == {window: n for window, n in expected.items() if window[0] + 10 <= newest - 20}
    assert len(there.values(f"{name}.out")) == len(found)


def minutes_of(time: str) -> int:
    """Since the year 2026 began."""
    return round((datetime.fromisoformat(time) - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds() / 60)


def test_changes_become_a_table_that_is_joined_as_it_is_by_then(
    ottla: Ottla, broker: BrokerProcess, tmp_path: Path
) -> None:
    name, there = new_name(), Broker(broker.bootstrap)
    there.create(*(f"{name}.{what}" for what in ("changes", "customers", "orders", "named")))
    changes, orders = tmp_path / "changes.toml", tmp_path / "orders.toml"
    changes.write_text(
        f"""
name = "{name}a"
[sources.changes]
topics = ["{name}.changes"]
format = "json"
schema = "op string, id bigint, after struct<name: string>"
[[steps]]
name = "newest"
sql = "select id, case when op = 'd' then null else to_json(after) end as doc from changes"
[[sinks]]
name = "customers"
topic = "{name}.customers"
key = "id"
value = "doc"
"""
    )
    orders.write_text(
        f"""
name = "{name}b"
[sources.orders]
topics = ["{name}.orders"]
format = "json"
schema = "id bigint, customer bigint"
[sources.customers]
topics = ["{name}.customers"]
table = true
format = "json"
key = "ID"
schema = "name string"
[[steps]]
name = "named"
input = "orders"
join = {{ with = "customers", on = "orders.customer = customers.id", how = "left" }}
[[sinks]]
name = "out"
topic = "{name}.named"
"""
    )

    def come(said: list[tuple[str, int, str | None]], ordered: dict[int, int]) -> None:
        there.produce(
            f"{name}.changes",
            [json.dumps({"op": op, "id": id_, "after": to and {"name": to}}).encode() for op, id_, to in said],
        )
        run_to_the_end(ottla, changes)
        there.produce(
            f"{name}.orders", [json.dumps({"id": id_, "customer": who}).encode() for id_, who in ordered.items()]
        )
        run_to_the_end(ottla, orders)

    come([("c", 1, "Ann"), ("c", 2, "Bea"), ("u", 1, "Anna")], {10: 1, 11: 2, 12: 3})
    come([("d", 1, None), ("u", 2, "Beate"), ("c", 3, "Cleo"), ("d", 4, None)], {20: 1, 21: 2, 22: 3, 23: 4})
    rows = [json.loads(value) for value in there.values(f"{name}.named")]
    assert {row["id"]: row["name"] for row in rows} == {
        10: "Anna",
        11: "Bea",
        12: None,
        20: None,
        21: "Beate",
        22: "Cleo",
        23: None,
    }
    assert len(rows) == 7
