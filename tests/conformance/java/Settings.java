import com.fasterxml.jackson.databind.JsonNode;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;

/** The suite's own words for settings, turned into Kafka's names; "raw" holds Kafka's names as they are. */
final class Settings {
    private static final Map<String, String> NAMES =
            Map.ofEntries(
                    Map.entry("bootstrap", "bootstrap.servers"),
                    Map.entry("acks", "acks"),
                    Map.entry("compression", "compression.type"),
                    Map.entry("idempotence", "enable.idempotence"),
                    Map.entry("linger_ms", "linger.ms"),
                    Map.entry("batch_bytes", "batch.size"),
                    Map.entry("max_request_bytes", "max.request.size"),
                    Map.entry("in_flight", "max.in.flight.requests.per.connection"),
                    Map.entry("request_timeout_ms", "request.timeout.ms"),
                    Map.entry("reset", "auto.offset.reset"),
                    Map.entry("isolation", "isolation.level"));

    private Settings() {}

    static Properties of(String bootstrap, JsonNode request) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        NAMES.forEach(
                (ours, kafkas) -> {
                    if (request.has(ours)) properties.put(kafkas, request.get(ours).asText());
                });
        if (request.has("raw")) {
            request.get("raw").properties().forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        }
        return properties;
    }

    static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    static String name(JsonNode request, String field) {
        return request.hasNonNull(field) ? request.get(field).asText() : null;
    }
}
