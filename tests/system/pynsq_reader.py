"""Reads a channel with pynsq as it comes, through lookup: prints the id and the body of each message, as JSON."""

import json
import sys

import nsq

lookupd, topic, channel = sys.argv[1:]


def handle(message):
    print(json.dumps([message.id.decode(), message.body.decode()]), flush=True)
    return True


# It asks for the next leader only this often, by default every minute.
nsq.Reader(
    message_handler=handle,
    lookupd_http_addresses=[lookupd],
    lookupd_poll_interval=2,
    topic=topic,
    channel=channel,
)
nsq.run()
