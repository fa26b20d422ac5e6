import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group: a thread that polls all the time and keeps a journal. What the test asks for meanwhile runs between
 * two polls, since a consumer belongs to one thread.
 */
final class Member extends Thread implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(50);
    private static final int ANSWER_WAIT_S = 40;

    final Consumer<byte[], byte[]> consumer;
    private final ConcurrentLinkedQueue<FutureTask<?>> asked = new ConcurrentLinkedQueue<>();
    private final List<Object> records = new ArrayList<>();
    private final List<Object> events = new ArrayList<>();
    private final List<Object> errors = new ArrayList<>();
    private boolean left;
    private boolean fenced;

    Member(Properties properties, List<String> topics) {
        setDaemon(true);
        consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(topics, this);
    }

    @Override
    public void run() {
        while (true) {
            for (FutureTask<?> task = asked.poll(); task != null; task = asked.poll()) task.run();
            if (left) return;
            try {
                if (fenced) pause(POLL.toMillis());
                else consumer.poll(POLL).forEach(record -> records.add(described(record)));
            } catch (FencedInstanceIdException error) { // Polling on would take the name back, and fence the other in turn.
                fenced = true;
                errors.add(Loop.described(error));
            } catch (Exception error) { // Whatever the client throws is what the test wants to know.
                errors.add(Loop.described(error));
                pause(POLL.toMillis());
            }
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static Map<String, Object> described(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> fields = new HashMap<>(); // Map.of takes no nulls.
        fields.put("topic", record.topic());
        fields.put("partition", record.partition());
        fields.put("offset", record.offset());
        fields.put("value", Settings.text(record.value()));
        fields.put("at_ms", System.currentTimeMillis());
        return fields;
    }

    private void told(String kind, Collection<TopicPartition> partitions) {
        events.add(Map.of("kind", kind, "partitions", spelled(partitions), "at_ms", System.currentTimeMillis()));
    }

    static List<List<Object>> spelled(Collection<TopicPartition> partitions) {
        List<List<Object>> pairs = new ArrayList<>();
        for (TopicPartition partition : partitions) pairs.add(List.of(partition.topic(), partition.partition()));
        return pairs;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        told("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        told("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        told("lost", partitions);
    }

    <T> T ask(Callable<T> action) throws Exception {
        FutureTask<T> task = new FutureTask<>(action);
        asked.add(task);
        return task.get(ANSWER_WAIT_S, TimeUnit.SECONDS);
    }

    /** No poll for so long; nobody waits for it. */
    void hold(long ms) {
        asked.add(new FutureTask<>(() -> pause(ms), null));
    }

    Object watch() throws Exception {
        return ask(this::news);
    }

    private Map<String, Object> news() {
        Map<String, Object> news = new HashMap<>();
        news.put("records", List.copyOf(records));
        news.put("events", List.copyOf(events));
        news.put("errors", List.copyOf(errors));
        news.put("owned", spelled(consumer.assignment()));
        news.put("generation", consumer.groupMetadata().generationId());
        records.clear();
        events.clear();
        errors.clear();
        return news;
    }

    void leave() throws Exception {
        ask(
                () -> {
                    left = true;
                    consumer.close();
                    return null;
                });
    }
}
