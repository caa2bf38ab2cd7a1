/* A small JSON writer, so that only the store's jars are needed. */

import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

class Json {
    static void save(Object value, Path path) throws Exception {
        try (PrintStream out = new PrintStream(new FileOutputStream(path.toFile()), false, StandardCharsets.US_ASCII)) {
            print(value, out);
            out.println();
        }
    }

    private static void print(Object value, PrintStream out) {
        if (value instanceof Map) {
            String before = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.print(before);
                print(entry.getKey(), out);
                out.print(":");
                print(entry.getValue(), out);
                before = ",\n";
            }
            out.print(before.equals("{") ? "{}" : "}");
        } else if (value instanceof List) {
            String before = "[";
            for (Object each : (List<?>) value) {
                out.print(before);
                print(each, out);
                before = ",\n";
            }
            out.print(before.equals("[") ? "[]" : "]");
        } else if (value instanceof String) {
            out.print('"');
            for (char each : ((String) value).toCharArray()) {
                out.print(each < 32 || each > 126 || each == '"' || each == '\\' ? String.format("\\u%04x", (int) each) : each);
            }
            out.print('"');
        } else {
            out.print(value);
        }
    }
}
