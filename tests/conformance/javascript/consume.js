'use strict'

const { randomUUID } = require('node:crypto')
const { PartitionAssigners } = require('kafkajs')

const POLL_WAIT_MS = 100
const END = -1
const BEGINNING = -2

const text = (buffer) => (buffer === null || buffer === undefined ? null : buffer.toString('base64'))

const listed = (headers) =>
  Object.entries(headers ?? {}).flatMap(([name, values]) =>
    (Array.isArray(values) ? values : [values]).map((value) => ({ name, value: text(value) })),
  )

// A consumer reads all the time; what it has read waits for the next poll.
class Consumer {
  constructor(driver, { handle, topic }, options) {
    this.driver = driver
    this.handle = handle
    this.topic = topic
    this.records = []
    this.failure = null
    this.assignment = []
    this.rebalances = 0
    this.positions = new Map()
    this.wake = () => {}
    this.consumer = driver.kafka.consumer({
      partitionAssigners: [PartitionAssigners.roundRobin],
      sessionTimeout: 6000,
      heartbeatInterval: 300,
      rebalanceTimeout: 10000,
      maxWaitTimeInMs: 100,
      ...options,
    })
    driver.consumers.set(handle, this)
  }

  async start(fromBeginning) {
    const { GROUP_JOIN, CRASH } = this.consumer.events
    const joined = new Promise((resolve) => {
      this.consumer.on(GROUP_JOIN, ({ payload }) => {
        this.assignment = payload.memberAssignment[this.topic] ?? []
        this.rebalances += 1
        resolve()
      })
    })
    this.consumer.on(CRASH, ({ payload }) => {
      this.failure = payload.error
      this.wake()
    })
    await this.consumer.connect()
    await this.consumer.subscribe({ topic: this.topic, fromBeginning })
    await this.consumer.run({ autoCommit: false, eachMessage: async (each) => this.take(each) })
    return joined
  }

  take({ partition, message }) {
    this.positions.set(partition, BigInt(message.offset) + 1n)
    this.records.push({
      partition,
      offset: Number(message.offset),
      key: text(message.key),
      value: text(message.value),
      headers: listed(message.headers),
      timestamp: Number(message.timestamp),
    })
    this.wake()
  }

  // Hands over what came since the last poll; it waits a little when that is nothing.
  async poll() {
    if (this.records.length === 0 && this.failure === null) {
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, POLL_WAIT_MS)
        this.wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    const { failure, records, rebalances } = this
    this.failure = null
    this.records = []
    if (failure !== null) throw failure
    return { records, assignment: [...this.assignment].sort((a, b) => a - b), rebalances }
  }

  seek({ partitions, offset }) {
    for (const partition of partitions) this.consumer.seek({ topic: this.topic, partition, offset: String(offset) })
  }

  pause({ partitions }) {
    this.consumer.pause([{ topic: this.topic, partitions }])
  }

  resume({ partitions }) {
    this.consumer.resume([{ topic: this.topic, partitions }])
  }

  commit({ metadata }) {
    const offsets = [...this.positions].map(([partition, offset]) => ({
      topic: this.topic,
      partition,
      offset: String(offset),
      metadata,
    }))
    return this.consumer.commitOffsets(offsets)
  }

  async close() {
    await this.consumer.disconnect()
    this.driver.consumers.delete(this.handle)
  }
}

// kafkajs has no consumer without a group: a reader is the only member of one of its own.
async function openReader(driver, given) {
  const reader = new Consumer(driver, given, { groupId: `reader-${randomUUID()}` })
  await reader.start(given.start !== END)
  if (given.start !== END && given.start !== BEGINNING) reader.seek({ ...given, offset: given.start })
}

// Others may have to be polled before a member has joined: it is not waited for.
async function openMember(driver, given) {
  if (given.assignor !== 'roundrobin') throw new Error(`no such assignor: ${given.assignor}`)
  const member = new Consumer(driver, given, { groupId: given.group })
  member.start(true).catch((error) => {
    member.failure = error
    member.wake()
  })
}

module.exports = { Consumer, openReader, openMember }
