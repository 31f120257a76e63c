// A writer and a worker of a group until the input ends, a line of JSON for each thing they were told:
// node load.js HOST PORT KEY GROUP CONSUMER
"use strict";

const Redis = require("ioredis");

const [host, port, key, group, consumer] = process.argv.slice(2);
let ends = false;

function say(name, value) {
  console.log(JSON.stringify([name, value]));
}

function client() {
  const made = new Redis({ host, port: Number(port), retryStrategy: () => 20 });
  made.on("error", () => {}); // a broker that is away is asked again
  return made;
}

async function write(redis) {
  while (!ends) {
    const pipeline = redis.pipeline();
    for (let number = 0; number < 10; number += 1) {
      pipeline.xadd(key, "*", "f", "v");
    }
    try {
      const replies = await pipeline.exec();
      say("added", replies.filter(([error]) => error === null).map(([, id]) => id));
    } catch {
      // not known whether they are there
    }
  }
}

async function work(redis) {
  while (!ends) {
    try {
      const reply = await redis.xreadgroup("GROUP", group, consumer, "COUNT", 5, "BLOCK", 50, "STREAMS", key, ">");
      const ids = reply === null ? [] : reply[0][1].map(([id]) => id);
      say("taken", ids.slice(3));
      if (ids.length > 0) {
        await redis.xack(key, group, ...ids.slice(0, 3));
        say("acknowledged", ids.slice(0, 3));
      }
    } catch {
      // asked again
    }
  }
}

async function main() {
  const clients = [client(), client()];
  process.stdin.on("end", () => {
    ends = true;
  });
  process.stdin.resume();
  await Promise.all([write(clients[0]), work(clients[1])]);
  clients.forEach((each) => each.disconnect());
}

main();
