import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/** Everything that goes through the Java client's Admin. */
final class Administering implements AutoCloseable {
    private final Admin admin;

    Administering(String bootstrap) {
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    void addTo(Map<String, Loop.Operation> operations) {
        operations.put("create_topic", this::createTopic);
        operations.put("delete_topic", request -> admin.deleteTopics(List.of(name(request))).all().get());
        operations.put("create_partitions", this::createPartitions);
        operations.put("list_topics", request -> admin.listTopics().names().get());
        operations.put("describe_topic", this::describeTopic);
        operations.put("list_offsets", this::listOffsets);
        operations.put("describe_configs", this::describeConfigs);
        operations.put("change_configs", this::changeConfigs);
        operations.put("delete_records", this::deleteRecords);
        operations.put("describe_cluster", this::describeCluster);
        operations.put("describe_log_dirs", this::describeLogDirs);
        operations.put("describe_producers", this::describeProducers);
    }

    private static String name(JsonNode request) {
        return request.get("name").asText();
    }

    private static TopicPartition partition(JsonNode request) {
        return new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
    }

    private Object createTopic(JsonNode request) throws Exception {
        Map<String, String> configs = new HashMap<>();
        request.get("configs").properties().forEach(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        int partitions = request.get("partitions").asInt();
        NewTopic topic = new NewTopic(name(request), partitions, (short) request.get("replication").asInt()).configs(configs);
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(request.get("validate_only").asBoolean());
        return admin.createTopics(List.of(topic), options).all().get();
    }

    private Object createPartitions(JsonNode request) throws Exception {
        NewPartitions wanted = NewPartitions.increaseTo(request.get("total").asInt());
        return admin.createPartitions(Map.of(name(request), wanted)).all().get();
    }

    private Object describeTopic(JsonNode request) throws Exception {
        TopicDescription topic = admin.describeTopics(List.of(name(request))).allTopicNames().get().get(name(request));
        List<Object> partitions = new ArrayList<>();
        for (TopicPartitionInfo partition : topic.partitions()) {
            partitions.add(
                    Map.of(
                            "index", partition.partition(),
                            "leader", partition.leader().id(),
                            "replicas", partition.replicas().stream().map(Node::id).toList(),
                            "isr", partition.isr().stream().map(Node::id).toList()));
        }
        return Map.of("name", topic.name(), "id", topic.topicId().toString(), "partitions", partitions);
    }

    private Object listOffsets(JsonNode request) throws Exception {
        TopicPartition where = partition(request);
        ListOffsetsResultInfo found = admin.listOffsets(Map.of(where, spec(request.get("at")))).all().get().get(where);
        return Map.of("offset", found.offset(), "timestamp", found.timestamp());
    }

    private static OffsetSpec spec(JsonNode at) {
        if (at.isNumber()) return OffsetSpec.forTimestamp(at.asLong());
        return switch (at.asText()) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max_timestamp" -> OffsetSpec.maxTimestamp();
            default -> throw new IllegalArgumentException(at.asText());
        };
    }

    private static ConfigResource resource(JsonNode request) {
        return new ConfigResource(ConfigResource.Type.valueOf(request.get("kind").asText().toUpperCase()), name(request));
    }

    private Object describeConfigs(JsonNode request) throws Exception {
        Config config = admin.describeConfigs(List.of(resource(request))).all().get().get(resource(request));
        Map<String, Object> entries = new HashMap<>();
        for (ConfigEntry entry : config.entries()) {
            Map<String, Object> fields = new HashMap<>(); // Map.of takes no nulls.
            fields.put("value", entry.value());
            fields.put("read_only", entry.isReadOnly());
            fields.put("default", entry.source() == ConfigEntry.ConfigSource.DEFAULT_CONFIG);
            entries.put(entry.name(), fields);
        }
        return entries;
    }

    private Object changeConfigs(JsonNode request) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        for (JsonNode change : request.get("changes")) {
            ConfigEntry entry = new ConfigEntry(change.get(1).asText(), change.get(2).isNull() ? null : change.get(2).asText());
            changes.add(new AlterConfigOp(entry, AlterConfigOp.OpType.valueOf(change.get(0).asText())));
        }
        return admin.incrementalAlterConfigs(Map.of(resource(request), changes)).all().get();
    }

    private Object deleteRecords(JsonNode request) throws Exception {
        RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before").asLong());
        TopicPartition where = partition(request);
        return admin.deleteRecords(Map.of(where, before)).lowWatermarks().get(where).get().lowWatermark();
    }

    private Object describeCluster(JsonNode request) throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        List<Object> brokers = new ArrayList<>();
        for (Node node : cluster.nodes().get()) {
            brokers.add(Map.of("id", node.id(), "host", node.host(), "port", node.port()));
        }
        int controller = cluster.controller().get().id();
        return Map.of("cluster_id", cluster.clusterId().get(), "controller", controller, "brokers", brokers);
    }

    private Object describeLogDirs(JsonNode request) throws Exception {
        String topic = request.get("topic").asText();
        List<Integer> brokers = admin.describeCluster().nodes().get().stream().map(Node::id).toList();
        List<Object> directories = new ArrayList<>();
        for (Map<String, LogDirDescription> described : admin.describeLogDirs(brokers).allDescriptions().get().values()) {
            described.forEach(
                    (path, directory) -> {
                        Map<String, Long> sizes = new HashMap<>();
                        directory.replicaInfos().forEach(
                                (where, replica) -> {
                                    if (where.topic().equals(topic)) sizes.put(where.toString(), replica.size());
                                });
                        directories.add(Map.of("path", path, "partitions", sizes));
                    });
        }
        return directories;
    }

    private Object describeProducers(JsonNode request) throws Exception {
        TopicPartition where = partition(request);
        List<Object> producers = new ArrayList<>();
        for (ProducerState state : admin.describeProducers(List.of(where)).partitionResult(where).get().activeProducers()) {
            producers.add(
                    Map.of(
                            "producer_id", state.producerId(),
                            "epoch", state.producerEpoch(),
                            "last_sequence", state.lastSequence()));
        }
        return producers;
    }

    @Override
    public void close() {
        admin.close();
    }
}
