"""Random scripts of two clients, in turns: commands of one within transactions of the other, or while it waits.

0   WATCH s            MULTI  XADD s ..           XLEN s  EXEC
1           XADD s ..                  XDEL s ..               XREAD BLOCK ..
"""

from __future__ import annotations

from tests.conformance.redis_replies import Command
from tests.conformance.redis_scripts import Script
from tests.conformance.redis_steps import Kind, Step, Steps
from tests.conformance.redis_steps import Script as Drawn

CLIENTS = (0, 1)


class PairScript:
    """Draws steps of two clients. The same seed gives the same script."""

    def __init__(self, seed: int, *, waits: bool) -> None:
        """`waits` has clients wait, which goes on between brokers in an order that nothing says."""
        self._script = Script(seed)
        self._random = self._script.random
        self._waits = waits

    def draw(self) -> Steps:
        """A step, or some that belong together."""
        draw, client = self._random.random(), self._random.choice(CLIENTS)
        if draw < 0.25:
            return self._transaction(client)
        if draw < 0.35 and self._waits:
            return self._wait(client)
        if draw < 0.40:
            return [Step(client, self._watched())]
        return [Step(client, command) for command in self._script.draw()]

    def _watched(self) -> Command:
        script = self._script
        return ("UNWATCH",) if self._random.random() < 0.1 else ("WATCH", script.stream, *script.maybe(0.3, "t"))

    def _transaction(self, client: int) -> Steps:
        script, chance = self._script, self._random.random
        steps = [Step(client, self._watched())] if chance() < 0.6 else []
        steps += self._of_other(client, 0.4)
        steps.append(Step(client, ("MULTI",)))
        for _ in range(self._random.randint(1, 4)):
            steps += [Step(client, command) for command in script.draw()]
            steps += self._of_other(client, 0.2)
        end = self._random.choices(("EXEC", "DISCARD", ""), (17, 2, 1))[0]
        return [*steps, Step(client, (end,))] if end else steps

    def _of_other(self, client: int, chance: float) -> Steps:
        if self._random.random() >= chance:
            return []
        return [Step(1 - client, command) for command in self._script.draw()]

    def _wait(self, client: int) -> Steps:
        """One waits while the other does something that may or may not be what it waits for."""
        script = self._script
        count = script.maybe(0.5, "COUNT", script.one("1", "2", "5"))
        key = script.stream  # of several, 7.0 answers with one alone
        if self._random.random() < 0.5:
            after = script.one("$", "$", script.entry_id.replace("+", "5-1"))
            command: Command = ("XREAD", *count, "BLOCK", "0", "STREAMS", key, after)
            steps = [Step(client, command, Kind.BEGIN)]
        else:
            after = script.one(">", ">", ">", script.entry_id)
            options = (*count, "BLOCK", "0", *script.maybe(0.2, "NOACK"))
            group, consumer = script.name, script.consumer
            command = ("XREADGROUP", "GROUP", group, consumer, *options, "STREAMS", key, after)
            # Releases behind 7.0 make the consumer when it begins to wait.
            steps = [
                Step(client, ("XGROUP", "CREATECONSUMER", key, group, consumer)),
                Step(client, command, Kind.BEGIN),
            ]
        for _ in range(self._random.randint(1, 3)):
            other = script.add() if self._random.random() < 0.5 else script.draw()
            steps += [Step(1 - client, each) for each in other]
        return [*steps, Step(client, command, Kind.END)]


def drawn_pair(seed: int, size: int, *, waits: bool) -> Drawn:
    """A script of about so many steps."""
    drawn, script = PairScript(seed, waits=waits), list[Steps]()
    while sum(map(len, script)) < size:
        script.append(drawn.draw())
    return script
