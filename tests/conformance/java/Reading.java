import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Fetching from an assigned partition, and the metadata request by which a reader may create a topic. */
final class Reading implements AutoCloseable {
    private final String bootstrap;
    private final Map<String, Consumer<byte[], byte[]>> opened = new HashMap<>();

    Reading(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void addTo(Map<String, Loop.Operation> operations) {
        operations.put("fetch", this::fetch);
        operations.put("request_metadata", this::requestMetadata);
    }

    private Object fetch(JsonNode request) {
        String name = Settings.name(request, "consumer");
        Consumer<byte[], byte[]> consumer = opened.get(name);
        if (consumer == null) consumer = open(request);
        if (name != null) opened.put(name, consumer);
        try {
            return poll(consumer, request.get("count").asInt(), request.get("wait_ms").asLong());
        } finally {
            if (name == null) consumer.close();
        }
    }

    private Consumer<byte[], byte[]> open(JsonNode request) {
        Properties properties = Settings.of(bootstrap, request);
        properties.putIfAbsent("auto.offset.reset", "none");
        properties.put("enable.auto.commit", "false");
        Consumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        consumer.assign(List.of(partition));
        consumer.seek(partition, request.get("offset").asLong());
        return consumer;
    }

    private static List<Object> poll(Consumer<byte[], byte[]> consumer, int count, long waitMs) {
        List<Object> found = new ArrayList<>();
        long deadline = System.nanoTime() + Duration.ofMillis(waitMs).toNanos();
        for (long left = 1; found.size() < count && left > 0; left = deadline - System.nanoTime()) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofNanos(deadline - System.nanoTime()))) {
                if (found.size() < count) found.add(described(record));
            }
        }
        return found;
    }

    private static Map<String, Object> described(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) headers.add(Arrays.asList(header.key(), Settings.text(header.value())));
        Map<String, Object> fields = new HashMap<>(); // Map.of takes no nulls.
        fields.put("offset", record.offset());
        fields.put("timestamp", record.timestamp());
        fields.put("timestamp_type", record.timestampType().toString());
        fields.put("key", Settings.text(record.key()));
        fields.put("value", Settings.text(record.value()));
        fields.put("headers", headers);
        return fields;
    }

    private Object requestMetadata(JsonNode request) {
        Properties properties = Settings.of(bootstrap, request);
        try (Consumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            return Map.of("partitions", consumer.partitionsFor(request.get("topic").asText()).size());
        }
    }

    void close(String name) {
        Consumer<byte[], byte[]> consumer = opened.remove(name);
        if (consumer != null) consumer.close();
    }

    @Override
    public void close() {
        opened.values().forEach(Consumer::close);
    }
}
