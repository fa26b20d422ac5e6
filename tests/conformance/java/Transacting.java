import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The transactional words; the producers are those of Writing, so that its produce writes into their transactions. */
final class Transacting implements AutoCloseable {
    private final String bootstrap;
    private final Writing writing;
    private final Grouping grouping;
    private final Admin admin;

    Transacting(String bootstrap, Writing writing, Grouping grouping) {
        this.bootstrap = bootstrap;
        this.writing = writing;
        this.grouping = grouping;
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    void addTo(Map<String, Loop.Operation> operations) {
        operations.put("open_transactional", this::open);
        operations.put("begin", this::begin);
        operations.put("send_offsets", this::sendOffsets);
        operations.put("end", this::end);
        operations.put("list_transactions", this::listTransactions);
        operations.put("describe_transaction", this::describeTransaction);
        operations.put("fence_producers", this::fenceProducers);
    }

    private static String transactionalId(JsonNode request) {
        return request.get("transactional_id").asText();
    }

    private Producer<byte[], byte[]> producer(JsonNode request) {
        return writing.opened(request.get("producer").asText());
    }

    private Object open(JsonNode request) {
        Properties properties = Settings.of(bootstrap, request);
        properties.put("transactional.id", transactionalId(request));
        properties.put("transaction.timeout.ms", request.get("timeout_ms").asText());
        properties.put("reconnect.backoff.max.ms", "100");
        Producer<byte[], byte[]> producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        writing.keep(request.get("producer").asText(), producer);
        return null;
    }

    private Object begin(JsonNode request) {
        producer(request).beginTransaction();
        return null;
    }

    /** With a member's metadata (KIP-447), with metadata that the test made up, or in a group's name alone. */
    private Object sendOffsets(JsonNode request) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode one : request.get("offsets")) {
            TopicPartition where = new TopicPartition(one.get("topic").asText(), one.get("partition").asInt());
            offsets.put(where, new OffsetAndMetadata(one.get("offset").asLong()));
        }
        producer(request).sendOffsetsToTransaction(offsets, metadata(request));
        return null;
    }

    private ConsumerGroupMetadata metadata(JsonNode request) throws Exception {
        if (request.hasNonNull("member")) {
            Member member = grouping.member(request);
            return member.ask(member.consumer::groupMetadata);
        }
        String group = request.get("group").asText();
        if (!request.has("generation")) return new ConsumerGroupMetadata(group);
        int generation = request.get("generation").asInt();
        return new ConsumerGroupMetadata(group, generation, request.get("member_id").asText(), Optional.empty());
    }

    private Object end(JsonNode request) {
        if (request.get("commit").asBoolean()) producer(request).commitTransaction();
        else producer(request).abortTransaction();
        return null;
    }

    private Object listTransactions(JsonNode request) throws Exception {
        List<Object> found = new ArrayList<>();
        for (TransactionListing listing : admin.listTransactions().all().get()) {
            found.add(
                    Map.of(
                            "transactional_id", listing.transactionalId(),
                            "producer_id", listing.producerId(),
                            "state", listing.state().toString()));
        }
        return found;
    }

    private Object describeTransaction(JsonNode request) throws Exception {
        String id = transactionalId(request);
        TransactionDescription found = admin.describeTransactions(List.of(id)).all().get().get(id);
        return Map.of(
                "state", found.state().toString(),
                "producer_id", found.producerId(),
                "epoch", found.producerEpoch(),
                "timeout_ms", found.transactionTimeoutMs(),
                "partitions", Member.spelled(found.topicPartitions()));
    }

    private Object fenceProducers(JsonNode request) throws Exception {
        return admin.fenceProducers(List.of(transactionalId(request))).all().get();
    }

    @Override
    public void close() {
        admin.close();
    }
}
