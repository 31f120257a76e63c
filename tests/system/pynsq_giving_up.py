"""Reads a channel with pynsq and a handler that always fails, until it gives up: prints each attempt, as JSON."""

import json
import sys

import nsq
import tornado.ioloop

address, topic, max_tries = sys.argv[1:]
attempts = []


class Failing(nsq.Reader):
    """Says when it gives up; the library finishes the message then."""

    def giving_up(self, message):
        attempts.append([message.attempts, "given up"])
        print(json.dumps(attempts), flush=True)
        loop = tornado.ioloop.IOLoop.current()
        loop.call_later(0.05, loop.stop)


def fail(message):
    attempts.append([message.attempts, "failed"])
    return False


Failing(
    message_handler=fail,
    nsqd_tcp_addresses=[address],
    topic=topic,
    channel="workers",
    max_tries=int(max_tries),
    requeue_delay=0,
    max_backoff_duration=0.01,
)
nsq.run()
