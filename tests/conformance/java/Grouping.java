import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The group words: members, commits of consumers that join nothing, administration of groups. */
final class Grouping implements AutoCloseable {
    private static final Map<String, String> NAMES =
            Map.of(
                    "client_id", "client.id",
                    "instance", "group.instance.id",
                    "session_ms", "session.timeout.ms",
                    "heartbeat_ms", "heartbeat.interval.ms",
                    "poll_interval_ms", "max.poll.interval.ms",
                    "auto_commit", "enable.auto.commit",
                    "auto_commit_ms", "auto.commit.interval.ms",
                    "metadata_ms", "metadata.max.age.ms");
    private static final Map<String, String> ASSIGNORS =
            Map.of("range", "RangeAssignor", "roundrobin", "RoundRobinAssignor", "cooperative", "CooperativeStickyAssignor");

    private final String bootstrap;
    private final Admin admin;
    private final Map<String, Member> members = new HashMap<>();

    Grouping(String bootstrap) {
        this.bootstrap = bootstrap;
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    void addTo(Map<String, Loop.Operation> operations) {
        operations.put("join", this::join);
        operations.put("watch", request -> member(request).watch());
        operations.put("commit", this::commit);
        operations.put("hold", this::hold);
        operations.put("leave", this::leave);
        operations.put("commit_alone", this::commitAlone);
        operations.put("committed", this::committed);
        operations.put("list_groups", this::listGroups);
        operations.put("describe_group", this::describeGroup);
        operations.put("delete_group", request -> admin.deleteConsumerGroups(List.of(group(request))).all().get());
        operations.put("alter_offsets", this::alterOffsets);
        operations.put("delete_offsets", this::deleteOffsets);
    }

    private static String group(JsonNode request) {
        return request.get("group").asText();
    }

    Member member(JsonNode request) {
        return members.get(request.get("member").asText());
    }

    private Properties properties(JsonNode request) {
        Properties properties = Settings.of(bootstrap, request);
        properties.put("group.id", group(request));
        properties.put("reconnect.backoff.max.ms", "100");
        NAMES.forEach(
                (ours, kafkas) -> {
                    if (request.has(ours)) properties.put(kafkas, request.get(ours).asText());
                });
        if (request.has("assignor")) {
            String assignor = ASSIGNORS.get(request.get("assignor").asText());
            properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        }
        return properties;
    }

    private Object join(JsonNode request) {
        List<String> topics = new ArrayList<>();
        request.get("topics").forEach(topic -> topics.add(topic.asText()));
        Member member = new Member(properties(request), topics);
        members.put(request.get("member").asText(), member);
        member.start();
        return null;
    }

    private Object commit(JsonNode request) throws Exception {
        Consumer<byte[], byte[]> consumer = member(request).consumer;
        boolean asynchronous = request.get("asynchronous").asBoolean();
        JsonNode chosen = request.get("offsets");
        return member(request)
                .ask(
                        () -> {
                            if (chosen.isNull() && asynchronous) consumer.commitAsync();
                            else if (chosen.isNull()) consumer.commitSync();
                            else if (asynchronous) consumer.commitAsync(offsets(chosen), null);
                            else consumer.commitSync(offsets(chosen));
                            return null;
                        });
    }

    private Object hold(JsonNode request) {
        member(request).hold(request.get("ms").asLong());
        return null;
    }

    private Object leave(JsonNode request) throws Exception {
        members.remove(request.get("member").asText()).leave();
        return null;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode chosen) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode one : chosen) {
            String metadata = one.hasNonNull("metadata") ? one.get("metadata").asText() : "";
            Optional<Integer> epoch = Optional.ofNullable(one.get("leader_epoch")).map(JsonNode::asInt);
            TopicPartition where = new TopicPartition(one.get("topic").asText(), one.get("partition").asInt());
            offsets.put(where, new OffsetAndMetadata(one.get("offset").asLong(), epoch, metadata));
        }
        return offsets;
    }

    private Consumer<byte[], byte[]> lonelyConsumer(JsonNode request) {
        Properties properties = properties(request);
        properties.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Object commitAlone(JsonNode request) {
        try (Consumer<byte[], byte[]> consumer = lonelyConsumer(request)) {
            Map<TopicPartition, OffsetAndMetadata> offsets = offsets(request.get("offsets"));
            consumer.assign(offsets.keySet());
            consumer.commitSync(offsets);
        }
        return null;
    }

    private static Set<TopicPartition> partitions(JsonNode request) {
        Set<TopicPartition> partitions = new HashSet<>();
        String topic = request.get("topic").asText();
        request.get("partitions").forEach(index -> partitions.add(new TopicPartition(topic, index.asInt())));
        return partitions;
    }

    private Object committed(JsonNode request) {
        try (Consumer<byte[], byte[]> consumer = lonelyConsumer(request)) {
            List<Object> found = new ArrayList<>();
            consumer.committed(partitions(request)).forEach((where, offset) -> found.add(described(where, offset)));
            return found;
        }
    }

    private static Map<String, Object> described(TopicPartition where, OffsetAndMetadata offset) {
        if (offset == null) return Map.of("partition", where.partition(), "offset", -1, "metadata", "", "leader_epoch", -1);
        return Map.of(
                "partition", where.partition(),
                "offset", offset.offset(),
                "metadata", offset.metadata(),
                "leader_epoch", offset.leaderEpoch().orElse(-1));
    }

    private Object listGroups(JsonNode request) throws Exception {
        List<Object> groups = new ArrayList<>();
        for (GroupListing listing : admin.listGroups(new ListGroupsOptions()).all().get()) {
            groups.add(Map.of("group", listing.groupId(), "state", listing.groupState().orElseThrow().name()));
        }
        return groups;
    }

    private Object describeGroup(JsonNode request) throws Exception {
        ConsumerGroupDescription group = admin.describeConsumerGroups(List.of(group(request))).all().get().get(group(request));
        List<Object> described = new ArrayList<>();
        for (MemberDescription member : group.members()) {
            Map<String, Object> fields = new HashMap<>(); // Map.of takes no nulls.
            fields.put("id", member.consumerId());
            fields.put("client_id", member.clientId());
            fields.put("instance", member.groupInstanceId().orElse(null));
            fields.put("host", member.host());
            fields.put("owned", Member.spelled(member.assignment().topicPartitions()));
            described.add(fields);
        }
        return Map.of("state", group.groupState().name(), "protocol", group.partitionAssignor(), "members", described);
    }

    private Object alterOffsets(JsonNode request) throws Exception {
        return admin.alterConsumerGroupOffsets(group(request), offsets(request.get("offsets"))).all().get();
    }

    private Object deleteOffsets(JsonNode request) throws Exception {
        return admin.deleteConsumerGroupOffsets(group(request), partitions(request)).all().get();
    }

    @Override
    public void close() {
        admin.close();
    }
}
