import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command-line tools, each through its own main method with the arguments a person would type. One JVM runs them
 * one after another, since starting one costs more than any of them does; Kafka's own Exit hook keeps it alive.
 */
public final class ToolsDriver {
    /** Ends a tool where it would have ended its process. Some catch it and exit again: the first status counts. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;

        Ended(int status) {
            super("exit " + status, null, false, false);
        }
    }

    private static final List<Runnable> hooks = new ArrayList<>();
    private static Integer firstStatus;

    private ToolsDriver() {}

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure(ToolsDriver::end);
        Exit.setHaltProcedure(ToolsDriver::end);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        InputStream in = System.in;
        Loop.serve("kafka-tools", AppInfoParser.getVersion(), Map.of("tool", ToolsDriver::run), in, System.out);
    }

    private static void end(int status, String message) {
        if (firstStatus == null) firstStatus = status;
        throw new Ended(status);
    }

    private static Object run(JsonNode request) throws Exception {
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        InputStream originalIn = System.in;
        PrintStream originalOut = System.out;
        PrintStream originalErr = System.err;
        firstStatus = null;
        hooks.clear();
        try {
            System.setIn(new ByteArrayInputStream(request.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            runMain(Class.forName(request.get("tool").asText()), arguments.toArray(new String[0]));
            hooks.forEach(Runnable::run); // The console producer, for one, flushes in its hook.
        } finally {
            System.setIn(originalIn);
            System.setOut(originalOut);
            System.setErr(originalErr);
        }
        String printed = out.toString(StandardCharsets.UTF_8);
        int status = firstStatus == null ? 0 : firstStatus;
        return Map.of("status", status, "out", printed, "err", err.toString(StandardCharsets.UTF_8));
    }

    private static void runMain(Class<?> tool, String[] arguments) throws Exception {
        try {
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Ended) return;
            thrown.getCause().printStackTrace();
            firstStatus = 1;
        }
    }
}
