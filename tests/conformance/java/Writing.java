import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The produce operation; producers that a request names stay open. */
final class Writing implements AutoCloseable {
    private static final int TIMEOUT_S = 30;

    private final String bootstrap;
    private final Map<String, Producer<byte[], byte[]>> opened = new HashMap<>();

    Writing(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void addTo(Map<String, Loop.Operation> operations) {
        operations.put("produce", this::produce);
    }

    private Object produce(JsonNode request) throws Exception {
        String name = Settings.name(request, "producer");
        Producer<byte[], byte[]> producer = opened.containsKey(name) ? opened.get(name) : open(request);
        if (name != null) opened.put(name, producer);
        try {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : request.get("records")) sent.add(producer.send(recordOf(request, record)));
            producer.flush();
            List<Object> outcomes = new ArrayList<>();
            for (Future<RecordMetadata> future : sent) outcomes.add(outcome(future));
            return outcomes;
        } finally {
            if (name == null) producer.close();
        }
    }

    private Producer<byte[], byte[]> open(JsonNode request) {
        Properties properties = Settings.of(bootstrap, request);
        if (properties.containsKey("request.timeout.ms")) {
            properties.putIfAbsent("delivery.timeout.ms", "60000");
        }
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static ProducerRecord<byte[], byte[]> recordOf(JsonNode request, JsonNode record) {
        Integer partition = record.get("partition").isNull() ? null : record.get("partition").asInt();
        Long timestamp = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
        ProducerRecord<byte[], byte[]> made =
                new ProducerRecord<>(
                        request.get("topic").asText(),
                        partition,
                        timestamp,
                        Settings.bytes(record.get("key")),
                        Settings.bytes(record.get("value")));
        record.get("headers").forEach(header -> made.headers().add(header.get(0).asText(), Settings.bytes(header.get(1))));
        return made;
    }

    private static Object outcome(Future<RecordMetadata> future) {
        try {
            RecordMetadata stored = future.get(TIMEOUT_S, TimeUnit.SECONDS);
            return Map.of("partition", stored.partition(), "offset", stored.offset(), "timestamp", stored.timestamp());
        } catch (Exception error) { // One record's outcome is a value; the others still count.
            return Map.of("error", Loop.described(error));
        }
    }

    Producer<byte[], byte[]> opened(String name) {
        return opened.get(name);
    }

    void keep(String name, Producer<byte[], byte[]> producer) {
        opened.put(name, producer);
    }

    void close(String name) {
        Producer<byte[], byte[]> producer = opened.remove(name);
        if (producer != null) producer.close();
    }

    @Override
    public void close() {
        opened.values().forEach(Producer::close);
    }
}
