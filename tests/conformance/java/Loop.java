import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.protocol.Errors;

/** The loop of a driver, as in drivers/loop.py: one JSON request per line in, one JSON answer per line out. */
final class Loop {
    static final ObjectMapper JSON = new ObjectMapper();

    interface Operation {
        Object answer(JsonNode request) throws Exception;
    }

    private Loop() {}

    static void serve(String client, String version, Map<String, Operation> operations, InputStream in, PrintStream out)
            throws IOException {
        out.println(JSON.writeValueAsString(Map.of("client", client, "version", version)));
        BufferedReader requests = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = JSON.readTree(line);
            out.println(JSON.writeValueAsString(answer(operations.get(request.get("op").asText()), request)));
        }
    }

    private static ObjectNode answer(Operation operation, JsonNode request) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            answer.set("ok", JSON.valueToTree(operation.answer(request)));
        } catch (Throwable error) { // Whatever the client throws is the answer; the test judges it.
            answer.set("error", JSON.valueToTree(described(error)));
        }
        return answer;
    }

    static Map<String, Object> described(Throwable thrown) {
        Throwable error = thrown;
        while ((error instanceof ExecutionException || error instanceof CompletionException) && error.getCause() != null) {
            error = error.getCause();
        }
        // The consumer's own exception: it has no number of its own, though the broker's answer had one.
        Errors named = error instanceof OffsetOutOfRangeException ? Errors.OFFSET_OUT_OF_RANGE : Errors.forException(error);
        return Map.of("code", named.code(), "message", error.toString());
    }
}
