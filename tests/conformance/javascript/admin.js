'use strict'

const { ConfigResourceTypes } = require('kafkajs')

const byPartition = (entries) => Object.fromEntries(entries)

const pairs = (offsets) =>
  Object.entries(offsets).map(([partition, offset]) => ({ partition: Number(partition), offset: String(offset) }))

module.exports = {
  ends: async ({ admin }, { topic }) =>
    byPartition(
      (await admin.fetchTopicOffsets(topic)).map((each) => [each.partition, [Number(each.low), Number(each.high)]]),
    ),

  // Looks into partition 0.
  offsets_for_times: async ({ admin }, { topic, times }) => {
    const offsets = []
    for (const time of times) {
      const found = await admin.fetchTopicOffsetsByTimestamp(topic, time)
      offsets.push(Number(found.find((each) => each.partition === 0).offset))
    }
    return offsets
  },

  create_topic: async ({ admin }, { topic, count, configs }) => {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const created = await admin.createTopics({
      topics: [{ topic, numPartitions: count, replicationFactor: -1, configEntries }],
    })
    if (!created) throw new Error(`TOPIC_ALREADY_EXISTS: ${topic}`)
  },

  topics: async ({ admin }) => (await admin.listTopics()).sort(),

  // Answers with leader, replicas and in-sync replicas by partition.
  describe_topic: async ({ admin }, { topic }) =>
    (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions
      .sort((a, b) => a.partitionId - b.partitionId)
      .map(({ leader, replicas, isr }) => ({ leader, replicas, isr })),

  delete_topic: ({ admin }, { topic }) => admin.deleteTopics({ topics: [topic] }),

  create_partitions: async ({ admin }, { topic, count }) => {
    await admin.createPartitions({ topicPartitions: [{ topic, count }] })
  },

  // kafkajs sets all of a topic's configs at once (AlterConfigs, not the incremental one).
  alter_configs: async ({ admin }, { topic, configs }) => {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }],
    })
  },

  describe_configs: async ({ admin }, { topic }) => {
    const { resources } = await admin.describeConfigs({
      includeSynonyms: true,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
    })
    return Object.fromEntries(resources[0].configEntries.map((each) => [each.configName, each.configValue]))
  },

  cluster: async ({ admin }) => {
    const { clusterId, controller, brokers } = await admin.describeCluster()
    return { id: clusterId, controller, brokers: brokers.map(({ host, port }) => `${host}:${port}`) }
  },

  groups: async ({ admin }) => (await admin.listGroups()).groups.map(({ groupId }) => groupId).sort(),

  describe_group: async ({ admin }, { group }) => {
    const { groups } = await admin.describeGroups([group])
    return { state: groups[0].state, assignor: groups[0].protocol, members: groups[0].members.length }
  },

  group_offsets: async ({ admin }, { group, topic }) => {
    const found = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    return byPartition(found[0].partitions.map((each) => [each.partition, Number(each.offset)]))
  },

  set_group_offsets: ({ admin }, { group, topic, offsets }) =>
    admin.setOffsets({ groupId: group, topic, partitions: pairs(offsets) }),

  delete_group: async ({ admin }, { group }) => {
    await admin.deleteGroups([group])
  },

  // Answers with the first offset that is left, by partition.
  delete_records: async ({ admin }, { topic, offsets }) => {
    await admin.fetchTopicOffsets(topic) // brings the leaders, which it does not ask for by itself
    await admin.deleteTopicRecords({ topic, partitions: pairs(offsets) })
    const left = await admin.fetchTopicOffsets(topic)
    return byPartition(left.filter((each) => each.partition in offsets).map((each) => [each.partition, Number(each.low)]))
  },
}
