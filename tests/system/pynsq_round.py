"""Publishes ten messages with pynsq, reads them, and puts one back once: prints each with its attempts, as JSON."""

import json
import os
import sys

import nsq
import tornado.ioloop

address, topic, *lookupds = sys.argv[1:]
options = json.loads(os.environ.get("NSQ_OPTIONS", "{}"))
got = []


def handle(message):
    body = message.body.decode()
    got.append([body, message.attempts])
    if len(got) == 11:
        print(json.dumps(got), flush=True)
        tornado.ioloop.IOLoop.current().add_callback(tornado.ioloop.IOLoop.current().stop)
    if body == "m3" and message.attempts == 1:
        message.enable_async()
        message.requeue(backoff=False, delay=0)
        return None
    return True


writer = nsq.Writer([address], **options)
reader = nsq.Reader(
    message_handler=handle,
    nsqd_tcp_addresses=[] if lookupds else [address],
    lookupd_http_addresses=lookupds,
    lookupd_poll_interval=1,
    topic=topic,
    channel="workers",
    max_in_flight=5,
    **options,
)


def publish_when_connected():
    if writer.conns:
        writer.mpub(topic, [b"m%d" % number for number in range(10)])
    else:
        tornado.ioloop.IOLoop.current().call_later(0.01, publish_when_connected)


tornado.ioloop.IOLoop.current().add_callback(publish_when_connected)
nsq.run()
