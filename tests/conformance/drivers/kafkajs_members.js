// The group words of kafkajs's driver. A member is a running consumer; its events tell what it was given.
//
// kafkajs rebalances eagerly, with its own round-robin assigner, and has no static members.

const { AssignerProtocol } = require('kafkajs')

const stateName = state => state.replace(/(?!^)([A-Z])/g, '_$1').toUpperCase()

const pairs = byTopic => Object.entries(byTopic).flatMap(([topic, indexes]) => indexes.map(index => [topic, index]))

const optionsOf = (group, settings) => ({
  groupId: group,
  ...(settings.session_ms && { sessionTimeout: settings.session_ms }),
  ...(settings.heartbeat_ms && { heartbeatInterval: settings.heartbeat_ms }),
  ...(settings.poll_interval_ms && { rebalanceTimeout: settings.poll_interval_ms }),
  ...(settings.metadata_ms && { metadataMaxAge: settings.metadata_ms }),
  maxWaitTimeInMs: 100,
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 100 },
})

class Member {
  constructor(consumer, described) {
    this.consumer = consumer
    this.described = described
    this.owned = []
    this.forget()
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => this.told('assigned', pairs(payload.memberAssignment)))
    consumer.on(consumer.events.REBALANCING, () => this.told('revoked', []))
    consumer.on(consumer.events.CRASH, ({ payload }) => this.errors.push(this.described(payload.error)))
  }

  forget() {
    this.records = []
    this.events = []
    this.errors = []
  }

  told(kind, partitions) {
    const told = kind === 'revoked' ? this.owned : partitions
    this.events.push({ kind, partitions: told, at_ms: Date.now() })
    this.owned = partitions
  }

  watch() {
    const news = { records: this.records, events: this.events, errors: this.errors, owned: this.owned, generation: null }
    this.forget()
    return news
  }

  async run(topics, settings) {
    await this.consumer.connect()
    await this.consumer.subscribe({ topics, fromBeginning: settings.reset === 'earliest' })
    await this.consumer.run({
      autoCommit: settings.auto_commit ?? true,
      autoCommitInterval: settings.auto_commit_ms ?? 5000,
      eachMessage: async ({ topic, partition, message }) => {
        const value = message.value === null ? null : message.value.toString('base64')
        this.records.push({ topic, partition, offset: Number(message.offset), value, at_ms: Date.now() })
      },
    })
  }
}

const offsetsOf = chosen =>
  chosen.map(({ topic, partition, offset, metadata }) => ({ topic, partition, offset: String(offset), metadata: metadata ?? '' }))

// The operations. `clientFor` makes a Kafka client with an id and perhaps another address, `described` an error's answer.
module.exports = (clientFor, admin, described) => {
  const members = new Map()

  const join = async ({ member: name, group, topics, ...settings }) => {
    const consumer = clientFor(settings.client_id ?? 'kafkajs', settings.bootstrap).consumer(optionsOf(group, settings))
    const member = new Member(consumer, described)
    members.set(name, member)
    // Not awaited: it answers only when the group has formed.
    member.run(topics, settings).catch(error => member.errors.push(described(error)))
  }

  const committed = async ({ group, topic, partitions }) => {
    const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    return found.partitions
      .filter(({ partition }) => partitions.includes(partition))
      .map(({ partition, offset, metadata }) => ({ partition, offset: Number(offset), metadata: metadata ?? '', leader_epoch: -1 }))
  }

  const describe_group = async ({ group }) => {
    const [found] = (await admin.describeGroups([group])).groups
    return {
      state: stateName(found.state),
      protocol: found.protocol,
      members: found.members.map(member => ({
        id: member.memberId,
        client_id: member.clientId,
        instance: null,
        host: member.clientHost,
        owned: pairs(AssignerProtocol.MemberAssignment.decode(member.memberAssignment)?.assignment ?? {}),
      })),
    }
  }

  return {
    join,
    watch: async ({ member }) => members.get(member).watch(),
    commit: async ({ member, offsets }) => members.get(member).consumer.commitOffsets(offsetsOf(offsets)),
    leave: async ({ member }) => {
      await members.get(member).consumer.disconnect()
      members.delete(member)
    },
    committed,
    describe_group,
    // The version of ListGroups that it speaks tells no states.
    list_groups: async () => (await admin.listGroups()).groups.map(({ groupId }) => ({ group: groupId, state: null })),
    delete_group: async ({ group }) => admin.deleteGroups([group]),
    alter_offsets: async ({ group, offsets }) => {
      const partitions = offsetsOf(offsets).map(({ partition, offset }) => ({ partition, offset }))
      await admin.setOffsets({ groupId: group, topic: offsets[0].topic, partitions }) // All are of one topic.
    },
    disconnect: async () => {
      for (const member of members.values()) await member.consumer.disconnect()
    },
  }
}
