// The transactional words of kafkajs's driver. It speaks the first versions of every transactional request, and sends
// offsets in a group's name alone.

const { Partitioners } = require('kafkajs')

// The operations. `clientFor` makes a Kafka client with an id and perhaps another address; `producers` are the driver's
// open ones by name, where a transaction takes its producer's place while it is under way.
module.exports = (clientFor, producers) => {
  const opened = new Map()
  const underWay = new Map()

  const open_transactional = async ({ producer: name, transactional_id, timeout_ms, bootstrap }) => {
    const producer = clientFor('kafkajs', bootstrap).producer({
      createPartitioner: Partitioners.DefaultPartitioner,
      transactionalId: transactional_id,
      transactionTimeout: timeout_ms,
      idempotent: true,
      maxInFlightRequests: 1,
    })
    await producer.connect()
    opened.set(name, producer)
    producers.set(name, producer)
    // It asks for its producer id when its first transaction begins: that one waits here for the test's `begin`.
    underWay.set(name, await producer.transaction())
  }

  const begin = async ({ producer: name }) => {
    const producer = opened.get(name)
    const waiting = underWay.get(name)
    const transaction = waiting?.isActive() ? waiting : await producer.transaction()
    underWay.set(name, transaction)
    producers.set(name, { send: transaction.send, disconnect: producer.disconnect })
  }

  const send_offsets = async ({ producer: name, group, offsets }) => {
    const topics = offsets.map(({ topic, partition, offset }) => ({ topic, partitions: [{ partition, offset: String(offset) }] }))
    await underWay.get(name).sendOffsets({ consumerGroupId: group, topics })
  }

  const end = async ({ producer: name, commit }) => {
    const transaction = underWay.get(name)
    await (commit ? transaction.commit() : transaction.abort())
  }

  return { open_transactional, begin, send_offsets, end }
}
