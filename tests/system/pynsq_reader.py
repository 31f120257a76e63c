"""Reads a channel with pynsq as it comes, through lookup: prints the id and the body of each message, as JSON."""

import json
import sys

import nsq

lookupd, topic, channel = sys.argv[1:]


def handle(message):
    print(json.dumps([message.id.decode(), message.body.decode()]), flush=True)
    return True


nsq.Reader(message_handler=handle, lookupd_http_addresses=[lookupd], topic=topic, channel=channel)
nsq.run()
