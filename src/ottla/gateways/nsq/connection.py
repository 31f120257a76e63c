"""One connection of an NSQ client: its commands, its answers in their order, and the messages that are pushed to it.

Commands are begun in the order in which they arrive. Messages of one connection are appended in that order; an answer
waits for those before it. Heartbeats go out between them.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.access import is_refusal
from ottla.broker.traffic_quota import TrafficQuota
from ottla.gateways.nsq import frame, identify
from ottla.gateways.nsq.answer import Answer, Answers, Piece
from ottla.gateways.nsq.channel_reader import ChannelReader
from ottla.gateways.nsq.client_auth import ClientAuth
from ottla.gateways.nsq.command import (
    Auth,
    Command,
    Finish,
    FinishMany,
    Identify,
    Nop,
    Publish,
    Ready,
    Requeue,
    StartClose,
    Subscribe,
    Touch,
)
from ottla.gateways.nsq.command_reader import CommandReader, LineTooLongError
from ottla.gateways.nsq.error import NsqError
from ottla.gateways.nsq.heartbeat import Heartbeat
from ottla.gateways.nsq.layers import DeflateLayer, Layer, LayerError, Layers, SnappyLayer, TlsLayer
from ottla.gateways.nsq.settlements import not_in_flight
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS

if TYPE_CHECKING:
    from ottla.gateways.nsq.gateway import NsqGateway
    from ottla.network.connection import Connection
    from ottla.network.receive_buffer import ReceiveBuffer
    from ottla.network.response_queue import ResponseSlot
    from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)

HANDSHAKE_MS: Final = 5_000
"""How long a TLS handshake may take, as with nsqd."""
HELD_BYTES_MAX: Final = 64 * 1024


class NsqConnection:
    """Belongs to the event loop. A handler of `ottla.network.connection`."""

    def __init__(self, gateway: "NsqGateway", connection: "Connection") -> None:
        self.gateway = gateway
        self.connection = connection
        self.options = identify.options_before_identify(gateway.limits)
        self.reader: ChannelReader | None = None
        """The reader of its channel, once it has subscribed."""
        self.subscription: tuple[str, str] | None = None
        """Topic and channel that it reads."""
        self.published: dict[str, int] = {}
        """How many messages it has published, by topic."""
        self.connected_ms = gateway.broker.clock.now_ms()
        self.principal = gateway.principal(ANONYMOUS.name, connection)
        """Who its client is; by the identity of its AUTH, where there is one."""
        self.auth: ClientAuth | None = None
        """What its client may do; None where clients need no AUTH."""
        self._commands = CommandReader(gateway.limits)
        if gateway.auth_servers is not None:
            self.auth = ClientAuth(gateway.auth_servers, self._told_auth_servers, gateway.broker.clock)
            self._commands.authorize = self.auth.check
        self._layers = Layers(self._write, frame.OK)
        self._held: bytearray | None = None  # what has arrived while new layers are about to begin
        self._handshake: TimerTask | None = None
        self._held_bytes = 0
        self._answers = Answers(self._push, connection.fail)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready_count = 0
        self._may_push = True
        self._has_failed = False
        broker = gateway.broker
        self._quota = TrafficQuota(
            broker.request_quotas,
            broker.timer,
            connection,
            lambda: (self.principal, self.options.client_id),
            self._wake_reader,
        )
        self._heartbeat = Heartbeat(
            broker.clock,
            broker.timer,
            lambda: self._push(frame.HEARTBEAT),
            connection.close,
            lambda: connection.is_muted,
        )
        self._heartbeat.start(self.options.heartbeat_interval_ms)

    @property
    def state(self) -> int:
        """Its state, in the numbers of nsqd's statistics."""
        return self._commands.state

    @property
    def unfinished_bytes(self) -> int:
        """How much is held of a command that has not arrived to its end."""
        return self._held_bytes

    @property
    def tls(self) -> TlsLayer | None:
        """Its TLS, if it has any."""
        return self._layers.tls

    @property
    def ready_count(self) -> int:
        """How many messages the client is ready for."""
        return self._ready_count

    def on_frame(self, data: memoryview, buffer: "ReceiveBuffer", slot: "ResponseSlot") -> None:
        """Bytes have arrived; they may hold many commands, or a part of one."""
        piece = Piece(slot)
        self._quota.begin()
        if self._held is not None:
            self._hold(data)
        elif self._layers.is_empty:
            self._read(data, piece)
        else:
            self._read_all(self._layers.received(bytes(data)), piece)
        if self.reader is not None:
            self.reader.settle_finished()
            self.reader.push_at_hand()
        piece.done()
        self._quota.end()

    def _read_all(self, pieces: Iterable[bytes], piece: Piece) -> None:
        """Read what came through the layers."""
        try:
            for data in pieces:
                if self._has_failed:
                    return
                self._read(data, piece)
        except LayerError as error:
            self._has_failed = True
            self.connection.fail(str(error))

    def _read(self, data: bytes | memoryview, piece: Piece) -> None:
        self._commands.feed(data)
        self._obey_all(piece)
        if self.connection.is_closed:
            return
        held, self._held_bytes = self._held_bytes, self._commands.buffered_bytes
        if not self.gateway.unfinished.move(held, self._held_bytes):
            self.gateway.close_largest_unfinished()

    def _obey_all(self, piece: Piece) -> None:
        is_heard = False  # who sends a byte of a command now and then says nothing, as with nsqd
        try:
            while not self._has_failed and (command := self._commands.next()) is not None:
                is_heard = True
                self._obey(command, piece)
        except NsqError as error:
            self._refuse(error, piece)
        except LineTooLongError:
            self._has_failed = True
            self.connection.fail("the client sends a command line without an end")
        if is_heard:
            self._heartbeat.heard()

    def _hold(self, data: bytes | memoryview) -> None:
        assert self._held is not None
        self._held += data
        if len(self._held) > HELD_BYTES_MAX:
            self.connection.close("it sends on before what it asked for with IDENTIFY has begun")

    def on_end_of_input(self) -> None:
        """The client sends nothing more, and so cannot settle anything: its messages go to others in time."""
        self._has_failed = True

    def on_close(self) -> None:
        """The connection is gone."""
        self._heartbeat.stop()
        self._quota.stop()
        if self._handshake is not None:
            self._handshake.cancel()
        self.gateway.unfinished.move(self._held_bytes, 0)
        self._held_bytes = 0
        for task in self._tasks:
            task.cancel()
        self._answers.give_up()
        self.gateway.forget(self)

    # --- commands ---------------------------------------------------------------------------------------------------

    def _obey(self, command: Command, piece: Piece) -> None:
        match command:
            case FinishMany(numbers):
                self._finish(piece, numbers)
            case Finish(message_id):
                self._settle(piece, "FIN", message_id, lambda reader: reader.finish(message_id))
            case Ready(count):
                self._ready_count = count
                if self.reader is not None:
                    self.reader.set_ready(count)
            case Requeue(message_id, delay_ms):
                self._settle(piece, "REQ", message_id, lambda reader: reader.requeue(message_id, delay_ms))
            case Touch(message_id):
                self._settle(piece, "TOUCH", message_id, lambda reader: reader.touch(message_id))
            case Publish():
                self._quota.brings(sum(map(len, command.bodies)))
                self._begin(self._publish(command, self._answers.place(piece)), "nsq-publish")
            case _:
                self._obey_rare(command, piece)

    def _obey_rare(self, command: Command, piece: Piece) -> None:
        match command:
            case Identify(body):
                self._identify(body, piece)
            case Subscribe(topic, channel):
                self._begin(self._subscribe(topic, channel, self._answers.place(piece)), "nsq-subscribe")
            case StartClose():
                self._begin(self._close(self._answers.place(piece)), "nsq-close")
            case Auth(secret):
                if self.auth is None:
                    raise NsqError("E_AUTH_DISABLED", "AUTH disabled")
                self.auth.begin()
                self._begin(self._authenticate(self.auth, secret, self._answers.place(piece)), "nsq-auth")
            case _:
                assert isinstance(command, Nop), command

    def _finish(self, piece: Piece, numbers: tuple[int, ...]) -> None:
        failed = numbers if self.reader is None else self.reader.finish_many(numbers)
        for number in failed:
            self._say_why_not_finished(piece, b"%016x" % number)

    def _say_why_not_finished(self, piece: Piece, message_id: bytes) -> None:
        self._settle(piece, "FIN", message_id, lambda reader: reader.finish(message_id))

    def _settle(self, piece: Piece, command: str, message_id: bytes, act: Callable[[ChannelReader], None]) -> None:
        try:
            if self.reader is None:  # SUB is still under way, and nothing has been pushed
                raise not_in_flight(command, message_id)
            act(self.reader)
        except NsqError as error:
            self._answers.give_now(piece, frame.error(error.line))

    def _identify(self, body: bytes, piece: Piece) -> None:
        limits, context = self.gateway.limits, self.gateway.tls_context
        can_begin = self._layers.is_empty
        self.options = options = identify.options_of(
            body, limits, self.options, has_tls=context is not None and can_begin
        )
        self._commands.has_heartbeats = options.heartbeat_interval_ms > 0
        self._heartbeat.start(options.heartbeat_interval_ms)
        told = (
            identify.negotiated(options, limits, auth_required=self.auth is not None) if options.negotiates else b"OK"
        )
        answer = self._answers.place(piece)
        layers: list[Layer] = []
        if options.tls and context is not None and can_begin:
            layers.append(TlsLayer(context))
        if options.snappy and can_begin:
            layers.append(SnappyLayer())
        if options.deflate and can_begin:
            layers.append(DeflateLayer(options.deflate_level))
        if layers:
            self._held = bytearray(self._commands.take_rest())
            answer.then = lambda its_piece: self._begin_layers(layers, its_piece)
        self._answers.give(answer, frame.response(told))

    def _begin_layers(self, layers: Sequence[Layer], piece: Piece) -> None:
        """From now on bytes go through these."""
        assert self._held is not None
        rest, self._held = bytes(self._held), None
        self._commands.has_tls = self.options.tls
        self._read_all(self._layers.add(layers, rest), piece)
        if self._layers.is_changing and not self._has_failed:
            self._handshake = self.gateway.broker.timer.schedule(HANDSHAKE_MS, self._on_handshake_late)

    def _on_handshake_late(self) -> None:
        self._handshake = None
        if self._layers.is_changing:
            self.connection.close(f"the TLS handshake took more than {HANDSHAKE_MS} ms")

    async def _close(self, answer: Answer) -> None:
        """Push no more; what was finished before is on disk when the client hears of it."""
        if self.reader is not None:
            self.reader.stop_pushing()
            await self.reader.all_settled()
        self._answers.give(answer, frame.CLOSE_WAIT)

    def _told_auth_servers(self) -> tuple[str, bool, str]:
        tls = self.tls
        return self.connection.peer.host, tls is not None, "" if tls is None else tls.common_name

    async def _authenticate(self, auth: ClientAuth, secret: bytes, answer: Answer) -> None:
        try:
            told = await auth.authenticate(secret)
        except NsqError as error:
            self._fail(answer, error)
            return
        assert auth.authorizations is not None
        self.principal = self.gateway.principal(auth.authorizations.identity or ANONYMOUS.name, self.connection)
        self._answers.give(answer, frame.response(told))

    async def _may(self, answer: Answer, command: str, topic: str, channel: str = "") -> bool:
        """Wait for its turn behind an AUTH; whether the client may, else it is told that it may not."""
        if self.auth is not None:
            try:
                await self.auth.in_turn(command, topic, channel)
            except NsqError as error:
                self._fail(answer, error)
                return False
        return True

    async def _publish(self, command: Publish, answer: Answer) -> None:
        if not await self._may(answer, command.command, command.topic):
            return
        try:
            await self.gateway.append(self.principal, command.topic, command.bodies, command.delay_ms)
        except ApiError as error:
            code = "E_UNAUTHORIZED" if is_refusal(error) else f"E_{command.command}_FAILED"
            self._fail(answer, NsqError(code, f"{command.command} failed {error.message}"))
        else:
            self.published[command.topic] = self.published.get(command.topic, 0) + len(command.bodies)
            self._answers.give(answer, frame.OK * command.answer_count)

    async def _subscribe(self, topic: str, channel: str, answer: Answer) -> None:
        if not await self._may(answer, "SUB", topic, channel):
            return
        try:
            reader = await self.gateway.subscribe(self, topic, channel)
        except ApiError as error:
            self._fail(
                answer,
                NsqError("E_UNAUTHORIZED" if is_refusal(error) else "E_SUB_FAILED", f"SUB failed {error.message}"),
            )
            return
        self.reader = reader
        self.subscription = topic, channel
        reader.set_ready(self._ready_count)
        self._answers.give(answer, frame.OK)
        try:
            await reader.run()
        except ApiError as error:
            self.connection.close(f"channel {channel} of topic {topic} cannot be read any more: {error.message}")

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self.gateway.broker.tasks.spawn(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- answers ----------------------------------------------------------------------------------------------------

    def _refuse(self, error: NsqError, piece: Piece) -> None:
        self._fail(self._answers.place(piece), error)

    def _fail(self, answer: Answer, error: NsqError) -> None:
        """Answer with an error that ends the connection; what the client sends after it is not looked at."""
        self._has_failed = True
        answer.ends = str(error)
        self._answers.give(answer, frame.error(error.line))

    def push_messages(self, data: bytes) -> None:
        """Send messages."""
        self._push(data)
        self._quota.pushed(len(data))

    def push_error(self, error: NsqError) -> None:
        """Tell of something that was said before and turned out to be in vain."""
        if not self._has_failed and not self.connection.is_closed:
            self._push(frame.error(error.line))

    @property
    def may_push(self) -> bool:
        """Whether the client keeps up with what is pushed to it, and with its quota."""
        return self._may_push and not self._has_failed and not self._quota.is_resting

    def _push(self, data: bytes) -> None:
        if self._layers.is_empty:
            self._write(data)
        elif not self._layers.is_changing:
            self._layers.send(data)

    def _write(self, data: bytes) -> None:
        if not self.connection.push((data,), self._on_room):
            self._may_push = False

    def _on_room(self) -> None:
        self._may_push = True
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self.reader is not None:
            self.reader.wake()
