// Driver of kafkajs: produces, consumes in groups, administers. Its consumer cannot read an assigned partition.
//
// kafkajs carries gzip alone and takes other codecs as plug-ins; those of npm are plugged in as its documentation says.
// Started with the bootstrap address as argument and NODE_PATH at the directory that npm installed into.

const readline = require('node:readline')
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, Partitioners, logLevel } = require('kafkajs')
const { version } = require('kafkajs/package.json')
const lz4 = require('lz4-napi')
const snappy = require('kafkajs-snappy')
const { ZstdCodec } = require('zstd-codec')
const groupsOf = require('./kafkajs_members')
const transactionsOf = require('./kafkajs_transactions')

const BOOTSTRAP = process.argv[2]
const UNKNOWN_CODE = -1
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const ACKS = { 0: 0, 1: 1, all: -1 }

const fromText = text => (text === null ? null : Buffer.from(text, 'base64'))

// It retries what Kafka calls retriable, a missing topic among them: soon and not for long.
const RETRY = { retries: 6, initialRetryTime: 50, maxRetryTime: 500 }
const newClient = (bootstrap, clientId = 'kafkajs') =>
  new Kafka({ clientId, brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: RETRY })
const kafka = newClient(BOOTSTRAP)
const admin = kafka.admin()
const producers = new Map()

const openProducer = async (name, settings) => {
  if (name && producers.has(name)) return producers.get(name)
  const client = settings.bootstrap ? newClient(settings.bootstrap) : kafka
  const producer = client.producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    idempotent: settings.idempotence === true,
    maxInFlightRequests: settings.in_flight,
  })
  await producer.connect()
  if (name) producers.set(name, producer)
  return producer
}

// Duplicate names become an array of values, which is how kafkajs takes them.
const headersOf = pairs => {
  const headers = {}
  for (const [name, text] of pairs) {
    const value = fromText(text)
    headers[name] = name in headers ? [].concat(headers[name], [value]) : value
  }
  return headers
}

const messageOf = record => ({
  key: fromText(record.key),
  value: fromText(record.value),
  headers: headersOf(record.headers),
  ...(record.partition === null ? {} : { partition: record.partition }),
  ...(record.timestamp === null ? {} : { timestamp: String(record.timestamp) }),
})

// kafkajs answers with the base offset per partition, not per record: outcomes are spelled out from it. Where it chose
// the partitions itself, one send carries one record, so that each answer belongs to its record.
const produce = async ({ topic, records, producer: name = null, ...settings }) => {
  const producer = await openProducer(name, settings)
  const send = messages =>
    producer.send({ topic, messages, acks: ACKS[settings.acks ?? 'all'], compression: CODECS[settings.compression ?? 'none'] })
  try {
    const chosen = new Set(records.map(record => record.partition))
    const together = chosen.size === 1 && !chosen.has(null)
    const groups = together ? [records] : records.map(record => [record])
    const outcomes = []
    for (const group of groups) {
      try {
        const [answer] = await send(group.map(messageOf))
        group.forEach((_, index) =>
          outcomes.push({
            partition: answer?.partition ?? -1,
            offset: answer ? Number(answer.baseOffset) + index : -1,
            timestamp: answer?.logAppendTime === undefined ? null : Number(answer.logAppendTime),
          })
        )
      } catch (error) {
        group.forEach(() => outcomes.push({ error: described(error) }))
      }
    }
    return outcomes
  } finally {
    if (!name) await producer.disconnect()
  }
}

const list_offsets = async ({ topic, partition, at }) => {
  const named = at === 'earliest' || at === 'latest'
  const offsets = named ? await admin.fetchTopicOffsets(topic) : await admin.fetchTopicOffsetsByTimestamp(topic, at)
  const found = offsets.find(entry => entry.partition === partition)
  const field = at === 'earliest' ? 'low' : at === 'latest' ? 'high' : 'offset'
  return { offset: Number(found[field]), timestamp: -1 }
}

const create_topic = async ({ name, partitions, replication, configs, validate_only }) => {
  const configEntries = Object.entries(configs).map(([key, value]) => ({ name: key, value }))
  const topic = { topic: name, numPartitions: partitions, replicationFactor: replication, configEntries }
  const created = await admin.createTopics({ topics: [topic], validateOnly: validate_only, waitForLeaders: false })
  // kafkajs answers false, not an error, for a topic that is there already.
  if (!created) throw Object.assign(new Error('exists'), { code: 36 })
}

const describe_topic = async ({ name }) => {
  const { topics } = await admin.fetchTopicMetadata({ topics: [name] })
  const partitions = topics[0].partitions.map(part => ({
    index: part.partitionId,
    leader: part.leader,
    replicas: part.replicas,
    isr: part.isr,
  }))
  return { name: topics[0].name, id: null, partitions: partitions.sort((left, right) => left.index - right.index) }
}

const resourceOf = (kind, name) => ({ type: ConfigResourceTypes[kind.toUpperCase()], name })

const describe_configs = async ({ kind, name }) => {
  const { resources } = await admin.describeConfigs({ resources: [resourceOf(kind, name)], includeSynonyms: false })
  return Object.fromEntries(
    resources[0].configEntries.map(entry => [
      entry.configName,
      { value: entry.configValue, read_only: entry.readOnly, default: entry.isDefault ?? entry.configSource === 5 },
    ])
  )
}

const replace_configs = async ({ kind, name, configs }) => {
  const configEntries = Object.entries(configs).map(([key, value]) => ({ name: key, value }))
  await admin.alterConfigs({ resources: [{ ...resourceOf(kind, name), configEntries }] })
}

const delete_records = async ({ topic, partition, before }) => {
  await admin.fetchTopicOffsets(topic) // It deletes only where it has already learnt of the leader.
  await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
  return (await list_offsets({ topic, partition, at: 'earliest' })).offset
}

const describe_cluster = async () => {
  const { clusterId, controller, brokers } = await admin.describeCluster()
  const nodes = brokers.map(node => ({ id: node.nodeId, host: node.host, port: node.port }))
  return { cluster_id: clusterId, controller, brokers: nodes }
}

const { disconnect, ...groupWords } = groupsOf((clientId, bootstrap) => newClient(bootstrap ?? BOOTSTRAP, clientId), admin, error =>
  described(error)
)

const operations = {
  ...groupWords,
  ...transactionsOf((clientId, bootstrap) => newClient(bootstrap ?? BOOTSTRAP, clientId), producers),
  produce,
  list_offsets,
  create_topic,
  delete_topic: async ({ name }) => admin.deleteTopics({ topics: [name] }),
  create_partitions: async ({ name, total }) => admin.createPartitions({ topicPartitions: [{ topic: name, count: total }] }),
  list_topics: async () => admin.listTopics(),
  describe_topic,
  describe_configs,
  replace_configs,
  delete_records,
  describe_cluster,
  close: async ({ name }) => {
    await producers.get(name)?.disconnect()
    producers.delete(name)
  },
}

// kafkajs wraps the protocol's error once or twice (retries exceeded, several topics): the innermost has the number.
const described = error => {
  const within = outer => outer.errors?.[0] ?? outer.partitions?.[0]?.error ?? outer.groups?.[0]?.error ?? outer.cause
  let inner = error
  while (inner.code === undefined && within(inner)) inner = within(inner)
  return { code: Number.isInteger(inner.code) ? inner.code : UNKNOWN_CODE, message: `${error.name}: ${error.message}` }
}

const answer = async ({ op, ...request }) => {
  try {
    return { ok: (await operations[op](request)) ?? null }
  } catch (error) {
    return { error: described(error) }
  }
}

const main = async () => {
  CompressionCodecs[CompressionTypes.Snappy] = snappy
  CompressionCodecs[CompressionTypes.LZ4] = () => ({ compress: encoder => lz4.compressFrame(encoder.buffer) })
  const zstd = await new Promise(resolve => ZstdCodec.run(codec => resolve(new codec.Simple())))
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({ compress: async encoder => Buffer.from(zstd.compress(encoder.buffer)) })
  await admin.connect()
  console.log(JSON.stringify({ client: 'kafkajs', version }))
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await answer(JSON.parse(line))))
  }
  for (const producer of producers.values()) await producer.disconnect()
  await disconnect()
  await admin.disconnect()
}

main()
