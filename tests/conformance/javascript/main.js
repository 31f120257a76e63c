// Drives kafkajs: a command is a line of JSON on standard input, its answer a line on standard output.
//
//   {"op": "ends", "topic": "t"}             ->  {"ok": {"0": [0, 100]}}
//   {"op": "reader", "handle": "r1", ...}    ->  {"ok": null}      later commands name the handle
//   {"op": "poll", "handle": "nobody"}       ->  {"error": "no consumer has the handle nobody"}
//
// Keys, values and header values are base64 or null. The first argument is the address of the broker, the second,
// where it is not spoken to in plaintext, a file of JSON: the PEM files "authority" and "key", "user" and "password".
'use strict'

const readline = require('node:readline')
const { readFileSync } = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')
const { installCodecs } = require('./codecs')
const { produce } = require('./produce')
const { openReader, openMember, Consumer } = require('./consume')
const admin = require('./admin')

const onConsumer = (method) => (driver, given) => {
  const consumer = driver.consumers.get(given.handle)
  if (consumer === undefined) throw new Error(`no consumer has the handle ${given.handle}`)
  return method.call(consumer, given)
}

const operations = {
  produce,
  reader: openReader,
  member: openMember,
  poll: onConsumer(Consumer.prototype.poll),
  seek: onConsumer(Consumer.prototype.seek),
  pause: onConsumer(Consumer.prototype.pause),
  resume: onConsumer(Consumer.prototype.resume),
  commit: onConsumer(Consumer.prototype.commit),
  close: onConsumer(Consumer.prototype.close),
  ...admin,
}

async function answer(driver, line) {
  try {
    const given = JSON.parse(line)
    const run = operations[given.op]
    if (run === undefined) throw new Error(`no such operation: ${given.op}`)
    return { ok: (await run(driver, given)) ?? null }
  } catch (error) {
    return { error: `${error.type ?? error.name}: ${error.message}` }
  }
}

function secured({ authority, key, user, password }) {
  const own = key === '' ? {} : { key: readFileSync(key), cert: readFileSync(key) }
  const ssl = { ca: [readFileSync(authority)], ...own }
  return user === '' ? { ssl } : { ssl, sasl: { mechanism: 'scram-sha-512', username: user, password } }
}

async function main() {
  await installCodecs()
  const [, , address, security] = process.argv
  const kafka = new Kafka({
    clientId: 'conformance',
    brokers: [address],
    logLevel: logLevel.NOTHING,
    ...(security === undefined ? {} : secured(JSON.parse(readFileSync(security, 'utf8')))),
  })
  const driver = { kafka, consumers: new Map(), admin: kafka.admin({ retry: { retries: 2, initialRetryTime: 50 } }) }
  await driver.admin.connect()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await answer(driver, line)) + '\n')
  }
  process.exit(0) // the tests have ended, whatever still consumes
}

main()
