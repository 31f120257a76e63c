// What ioredis gets for a round of stream commands, a line of JSON for each: node main.js HOST PORT
"use strict";

const Redis = require("ioredis");

const [host, port] = [process.argv[2], Number(process.argv[3])];

function say(name, value) {
  console.log(JSON.stringify([name, value]));
}

async function refused(name, work) {
  try {
    say(name, await work());
  } catch (error) {
    say(name, `refused: ${error.message}`);
  }
}

async function main() {
  const client = new Redis({ host, port, maxRetriesPerRequest: 0 });
  const waiting = client.duplicate();
  await client.del("jobs", "other", "later");
  say("add", await client.xadd("jobs", "1-1", "name", "tea", "count", "2"));
  say("group", await client.xgroup("CREATE", "jobs", "workers", "0", "MKSTREAM"));
  const pipeline = client.pipeline();
  for (let number = 2; number <= 20; number += 1) {
    pipeline.xadd("jobs", `${number}-0`, "number", number);
  }
  say("pipeline", await pipeline.exec());
  say("length", await client.xlen("jobs"));
  say("range", await client.xrange("jobs", "-", "+", "COUNT", 3));
  say("reverse", await client.xrevrange("jobs", "+", "(18-0"));
  say("read", await client.xread("COUNT", 2, "STREAMS", "jobs", "other", "18-0", "0"));
  say("taken", await client.xreadgroup("GROUP", "workers", "alice", "COUNT", 4, "STREAMS", "jobs", ">"));
  say("acknowledged", await client.xack("jobs", "workers", "1-1", "2-0"));
  const pending = await client.xpending("jobs", "workers", "-", "+", 10);
  say("pending", pending.map((row) => [row[0], row[1], row[3]]));
  say("summary", await client.xpending("jobs", "workers"));
  say("claimed", await client.xclaim("jobs", "workers", "bob", 0, "3-0"));
  say("claimed of itself", await client.xautoclaim("jobs", "workers", "bob", 0, "0", "COUNT", 5, "JUSTID"));
  say("group info", (await client.xinfo("GROUPS", "jobs"))[0].slice(0, 8));
  say("transaction", await client.multi().xadd("jobs", "30-0", "n", "1").xlen("jobs").xtrim("jobs", "MAXLEN", 5).exec());
  say("deleted", await client.xdel("jobs", "30-0", "31-0"));
  say("type", await client.type("jobs"));
  say("keys", (await client.keys("job*")).sort());
  say("renamed", await client.rename("jobs", "other"));
  await refused("too small", () => client.xadd("other", "1-0", "n", "1"));
  await refused("no group", () => client.xreadgroup("GROUP", "none", "alice", "STREAMS", "other", ">"));
  await refused("no number", () => client.call("XRANGE", "other", "-", "+", "COUNT", "many"));
  const answer = waiting.xread("BLOCK", 0, "STREAMS", "later", "$");
  while (!/blocked_clients:[1-9]/.test(await client.info("clients"))) {
    // it has not asked yet
  }
  await client.xadd("later", "5-5", "n", Buffer.from("k\u00e4se"));
  say("waited", await answer);
  say("nothing", await client.xread("BLOCK", 1, "STREAMS", "later", "$"));
  await client.quit();
  await waiting.quit();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
