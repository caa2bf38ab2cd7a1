import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.jpos.binlog.BinLog;
import org.jpos.binlog.BinLogReader;
import org.jpos.binlog.BinLogWriter;

/* Executes commands, one a line, with the module's own writer and reader; the last line of each answer is ".". */
public final class JposPeer {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            try {
                if (words[0].equals("add")) {
                    add(Path.of(words[1]), words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
                } else {
                    read(Path.of(words[1]));
                }
            } catch (Exception error) {
                // Without a message it is the module's limit of 5 s on the lock, which a busy machine reaches.
                System.out.println("error " + error + (error.getMessage() == null ? ": no lock within 5 s" : ""));
            }
            System.out.println(".");
            System.out.flush();
        }
    }

    /* Append `count` records with a new writer, with a cutover after each `cutoverEvery`. */
    private static void add(Path directory, String name, int count, int cutoverEvery) throws Exception {
        try (BinLogWriter writer = new BinLogWriter(directory)) {
            for (int index = 0; index < count; index++) {
                String record = name + "-" + index;
                BinLog.Ref ref = writer.add(record.getBytes(StandardCharsets.UTF_8));
                System.out.println(record + " " + ref.getFileNumber() + " " + ref.getOffset());
                if (cutoverEvery > 0 && (index + 1) % cutoverEvery == 0) {
                    cutOver(writer);
                }
            }
        }
    }

    /* Cut over; if another process did so first, the module finds the file closed and reports "not open". */
    private static void cutOver(BinLogWriter writer) throws IOException {
        try {
            writer.cutover();
        } catch (IOException error) {
            if (!String.valueOf(error.getMessage()).equals("BinLog not open")) {
                throw error;
            }
        }
    }

    private static void read(Path directory) throws Exception {
        try (BinLogReader reader = new BinLogReader(directory)) {
            int number;
            do { // its reader stops at a file that is closed and empty, and goes on if it is asked again
                number = reader.getFileNumber();
                while (reader.hasNext()) {
                    byte[] record = reader.next().get();
                    if (record.length > 0) { // the end of a header of ours reads as two empty records
                        System.out.println(new String(record, StandardCharsets.UTF_8));
                    }
                }
            } while (reader.getFileNumber() != number);
        }
    }
}
