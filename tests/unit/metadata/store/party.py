"""A party to a metadata store in a process of its own, which a test can stop, continue and kill.

The test calls methods of the store in it; what the store tells it by itself is collected by its reader.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from ottla.metadata.store import interface
from ottla.metadata.store.interface import MetadataStore, Session, StoreError
from ottla.metadata.store.location import embedded_directory, open_store
from ottla.metadata.store.session_files import DIRECTORY_NAME
from ottla.runtime.tasks import run_main

ROOT = Path(__file__).resolve().parents[4]
ANSWER_S = 60.0
"""Long after anything that works has answered."""


class Party:
    """The test's side. Its calls wait for their answer; an error of the store is raised here as what it was there."""

    def __init__(self, location: str, *, session_timeout_ms: int = 30_000) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.metadata.store.party", location, str(session_timeout_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._location = location
        self._session_key: tuple[int, bytes] | None = None
        """The number of its session in ZooKeeper, and what lets others take part in it."""
        self._broker_epoch = 0
        self.events: queue.Queue[list[Any]] = queue.Queue()
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.call("open", "cluster")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break  # killed in the middle of it
            said = json.loads(line)
            if "event" in said:
                self.events.put(said["event"])
            else:
                self._answers.put(said)
        self._answers.put({"error": "died"})

    def begin(self, method: str, *args: Any, **kwargs: Any) -> None:
        """Send a call without waiting for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([method, args, kwargs]) + "\n")
        self.process.stdin.flush()

    def finish(self) -> Any:
        """The answer to the oldest call that was not answered."""
        said = self._answers.get(timeout=ANSWER_S)
        if "error" in said:
            assert said["error"] != "died", "the party has died"
            raise getattr(interface, said["error"], StoreError)(said["message"])
        return said["result"]

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Have the store do something."""
        self.begin(method, *args, **kwargs)
        return self.finish()

    def register(self, broker_id: int, directory: str | None = None, registration: str = "") -> int:
        """Begin a session; its broker epoch."""
        self._broker_epoch = int(self.call("register", broker_id, registration, directory))
        key = self.call("session_key")
        self._session_key = key and (key[0], bytes.fromhex(key[1]))
        return self._broker_epoch

    def elect(self) -> int:
        """Be elected after the newest election."""
        return int(self.call("elect", self.call("controller")[1]))

    def wait_for(self, *event: Any) -> None:
        """Wait until the store has told it so; what it told before is passed over."""
        while self.events.get(timeout=ANSWER_S) != list(event):
            pass

    def pause(self) -> None:
        """Stop its process in its tracks; returns when it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def expire(self) -> None:
        """Have the session end now that would end with time: its party stands still, or is dead."""
        if self._session_key is not None:
            from kazoo.client import KazooClient

            client = KazooClient(self._location.split("/")[2], client_id=self._session_key)
            client.start(ANSWER_S)
            client.stop()
            client.close()
            return
        sessions = embedded_directory(self._location, Path()) / DIRECTORY_NAME
        with suppress(FileNotFoundError), (sessions / str(self._broker_epoch)).open("r+b") as renewal:
            renewal.write(bytes(16))
        for path in sessions.glob("*.wake"):
            with suppress(OSError):  # nobody reads it any more
                wake = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                os.write(wake, b"\0")
                os.close(wake)

    def kill(self) -> None:
        """As a crash."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def _session_key(store: MetadataStore) -> tuple[int, str] | None:
    client = getattr(store, "_client", None)
    if client is None:
        return None
    number, password = client._client.client_id
    return number, password.hex()


async def _answer(store: MetadataStore, sessions: list[Session], method: str, args: list[Any], kwargs: Any) -> Any:
    match method:
        case "register":
            broker_id, registration, directory = args
            takes_over = directory.encode() if directory is not None else None
            sessions.append(await store.register_broker(broker_id, registration.encode(), takes_over=takes_over))
            return sessions[-1].broker_epoch
        case "session_key":
            return _session_key(store)
        case "elect":
            return await store.elect(sessions[-1], seen_epoch=args[0])
        case "resign":
            return await store.resign(controller_epoch=args[0])
        case "controller":
            newest = await store.controller()
            return [newest.broker_id, newest.epoch, newest.alive]
        case "live_brokers":
            return [
                [live.broker_id, live.broker_epoch, live.registration.decode()] for live in await store.live_brokers()
            ]
        case "append" | "read" | "write_snapshot":
            return await _answer_about_log(store, method, args)
        case "cluster_secret":
            return (await store.cluster_secret(args[0].encode())).decode()
        case "open":
            return await store.open(args[0])
        case "close":
            return await store.close()
    raise AssertionError(method)


async def _answer_about_log(store: MetadataStore, method: str, args: list[Any]) -> Any:
    match method:
        case "append":
            epoch, end_offset, records = args
            encoded = [record.encode() for record in records]
            return await store.append(encoded, controller_epoch=epoch, expected_end_offset=end_offset)
        case "read":
            stored = await store.read(args[0])
            snapshot = None if stored.snapshot is None else [record.decode() for record in stored.snapshot]
            return [snapshot, [record.decode() for record in stored.records], stored.start_offset, stored.end_offset]
        case "write_snapshot":
            epoch, end_offset, records = args
            encoded = [record.encode() for record in records]
            return await store.write_snapshot(encoded, controller_epoch=epoch, end_offset=end_offset)
    raise AssertionError(method)


async def _main(location: str, session_timeout_ms: int) -> None:
    store = open_store(location, Path(), session_timeout_ms=session_timeout_ms)
    store.watch(lambda end_offset: _say({"event": ["log", end_offset]}))
    store.watch_brokers(lambda: _say({"event": ["brokers"]}))
    store.watch_controller(lambda: _say({"event": ["controller"]}))
    store.watch_session(lambda: _say({"event": ["session"]}))
    sessions: list[Session] = []
    lines = asyncio.StreamReader(limit=16 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        method, args, kwargs = json.loads(line)
        try:
            _say({"result": await _answer(store, sessions, method, args, kwargs)})
        except StoreError as error:
            _say({"error": type(error).__name__, "message": str(error)})
    await store.close()


if __name__ == "__main__":
    run_main(_main(sys.argv[1], int(sys.argv[2])))
