import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.utils.AppInfoParser;

/** Driver of the Java client: its producer and its transactions, its consumer on assigned partitions and in groups, its Admin. */
public final class ClientDriver {
    private ClientDriver() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Loop.Operation> operations = new HashMap<>();
        try (Writing writing = new Writing(arguments[0]);
                Reading reading = new Reading(arguments[0]);
                Administering administering = new Administering(arguments[0]);
                Grouping grouping = new Grouping(arguments[0]);
                Transacting transacting = new Transacting(arguments[0], writing, grouping)) {
            writing.addTo(operations);
            reading.addTo(operations);
            administering.addTo(operations);
            grouping.addTo(operations);
            transacting.addTo(operations);
            operations.put("close", request -> close(writing, reading, request));
            Loop.serve("java", AppInfoParser.getVersion(), operations, System.in, System.out);
        }
    }

    private static Object close(Writing writing, Reading reading, JsonNode request) {
        String name = request.get("name").asText();
        writing.close(name);
        reading.close(name);
        return null;
    }
}
