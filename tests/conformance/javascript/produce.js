'use strict'

const { Partitioners } = require('kafkajs')
const { codecs } = require('./codecs')

const bytes = (text) => (text === null ? null : Buffer.from(text, 'base64'))

// kafkajs takes the headers of one name as a list under that name.
function headersOf(headers) {
  const named = {}
  for (const { name, value } of headers) (named[name] ??= []).push(bytes(value))
  return named
}

// Writes records in order and answers with their offsets; with acks 0 nobody knows them.
exports.produce = async (driver, given) => {
  const producer = driver.kafka.producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    idempotent: given.idempotent,
    ...(given.idempotent ? { maxInFlightRequests: 1 } : {}),
  })
  await producer.connect()
  const results = await producer.send({
    topic: given.topic,
    acks: given.acks === 'all' ? -1 : Number(given.acks),
    compression: codecs[given.codec],
    messages: given.records.map((record) => ({
      partition: record.partition,
      key: bytes(record.key),
      value: bytes(record.value),
      headers: headersOf(record.headers),
      timestamp: String(record.timestamp),
    })),
  })
  await producer.disconnect()
  const next = new Map((results ?? []).map((result) => [result.partition, Number(result.baseOffset)]))
  return given.records.map(({ partition }) => {
    if (!next.has(partition)) return -1
    next.set(partition, next.get(partition) + 1)
    return next.get(partition) - 1
  })
}
