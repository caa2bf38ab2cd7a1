// Read and follow a log of binlog, with Java's standard library alone (17 or later): copy this file into your program.
//
//   java ReadLog.java [-f] DIR [FILE:OFFSET]
//
// It prints a line for each record: its ref, the ref after it, and the record in base64.  To resume later, pass the
// last ref of the second column; pass only refs that a reader has printed.  With -f it follows the log, and reads the
// header again every 100 ms.  (binlog.Reader, in Python, does not poll: writers wake it.)  It does not read archives
// (00000001.dat.zst), and ends with an error if it finds one.  docs/format.md describes the bytes.
//
// Do not use it in a process that appends to the same log through jPOS: when a channel is closed, Java gives up all
// locks that the process has on the file.

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.regex.Pattern;
import java.util.zip.CRC32C;

public final class ReadLog {
    /** Gets each record with its ref and the ref after it. */
    public interface Handler {
        void handle(String ref, String next, byte[] record) throws IOException;
    }

    /** sequence: of the file's first record; nextSequence: of the next one; -1 if another program made the file. */
    private record Header(boolean closed, long first, long tail, long sequence, long nextSequence) {}

    private static final int RECORD_BYTES_MAX = 64 << 20;
    private static final Pattern NAME = Pattern.compile("[0-9]{8}\\.dat(\\.zst)?");
    private static final byte[] MAGIC = "BINLOG\0\1".getBytes(StandardCharsets.ISO_8859_1);

    private final Path directory;
    private final boolean follow;
    private final Handler handler;

    /** follow: `read` waits for more records, and ends only with an exception. */
    public ReadLog(Path directory, boolean follow, Handler handler) {
        this.directory = directory;
        this.follow = follow;
        this.handler = handler;
    }

    /** Read from number:offset on; if number is 0, from the oldest record on. */
    public void read(int number, long offset) throws IOException, InterruptedException {
        long nextSequence = -1; // of the file before this one
        for (;;) {
            Path path = find(number);
            if (path != null) {
                number = numberOf(path);
                try (FileChannel file = FileChannel.open(path)) {
                    Header last = readFile(file, path, number, offset, nextSequence);
                    if (!last.closed) return;
                    nextSequence = last.nextSequence;
                    offset = 0;
                    number++;
                }
            } else if (follow) {
                Thread.sleep(100);
            } else {
                return;
            }
        }
    }

    /** Return the path of a file, or of the oldest one if number is 0; null if it does not exist yet. */
    private Path find(int number) throws IOException {
        List<Path> paths;
        try (var listing = Files.list(directory)) { // sorted, so a file comes before its archive
            paths = listing.filter(each -> NAME.matcher(each.getFileName().toString()).matches()).sorted().toList();
        }
        for (Path path : paths) {
            if (numberOf(path) < number) continue;
            if (number != 0 && numberOf(path) > number) {
                throw new IOException(path + ": the file before it is missing; retention may have removed it");
            }
            if (path.toString().endsWith(".zst")) {
                throw new IOException(path + ": this reader reads no archives; zstd -d restores the file");
            }
            return path;
        }
        return null;
    }

    private static int numberOf(Path path) {
        return Integer.parseInt(path.getFileName().toString().substring(0, 8));
    }

    /** Read a file to its tail, follow it until it is closed, and return its last header. */
    private Header readFile(FileChannel file, Path path, int number, long offset, long nextSequence)
            throws IOException, InterruptedException {
        for (;;) {
            Header header = readHeader(file, path, number);
            if (nextSequence >= 0 && header.sequence > nextSequence) {
                throw new IOException(path + ": records are missing before this file");
            }
            offset = Math.max(offset, header.first);
            if (offset > header.tail) throw new IOException(path + ": the file ends before " + offset);
            if (offset < header.tail) {
                offset = readRecords(file.position(offset), path, number, offset, header.tail);
            } else if (header.closed || !follow) {
                return header;
            } else {
                Thread.sleep(100);
            }
        }
    }

    /** Handle the records from an offset to the tail, and return the tail. */
    private long readRecords(FileChannel file, Path path, int number, long offset, long tail) throws IOException {
        // Not closed: that would close the channel.
        var stream = new DataInputStream(new BufferedInputStream(Channels.newInputStream(file), 1 << 20));
        while (offset < tail) {
            byte[] record = null;
            try {
                int length = stream.readInt();
                if (length >= 0 && length <= RECORD_BYTES_MAX && offset + 4 + length <= tail) record = new byte[length];
                if (record != null) stream.readFully(record);
            } catch (EOFException error) {
                record = null; // the file ends before its tail
            }
            if (record == null) {
                throw new IOException(path + ": damaged at " + offset + ", or a record of more than 64 MiB");
            }
            long next = offset + 4 + record.length;
            handler.handle(number + ":" + offset, number + ":" + next, record);
            offset = next;
        }
        return tail;
    }

    /** Return the header of a file.  Writers may be writing it, so two consecutive reads must agree. */
    private static Header readHeader(FileChannel file, Path path, int number) throws IOException {
        ByteBuffer data = readFirst(file);
        for (ByteBuffer before = null; !data.equals(before); data = readFirst(file)) before = data;
        if (data.limit() < 248) throw new IOException(path + ": the header is incomplete");
        byte[] bytes = data.array();
        if (data.getInt(0) != 252 || data.getShort(4) != 1) {
            throw new IOException(path + ": not a log file of version 1");
        }
        if (data.getInt(16) != number) throw new IOException(path + ": its header has another number");
        boolean closed = data.getShort(6) == 1;
        long tail = data.getLong(8);
        if (Arrays.equals(bytes, 24, 248, new byte[224], 0, 224)) {
            return new Header(closed, 248, tail, -1, -1); // another program made the file
        }
        if (!Arrays.equals(bytes, 24, 32, MAGIC, 0, 8)) {
            throw new IOException(path + ": this reader does not know the layout of the header");
        }
        int identity = crc(bytes, 0, 6, 16, 20, 24, 64);
        int live = crc(bytes, 32, 48, 16, 20, 64, 124);
        if (data.getInt(132) != identity || data.getInt(124) != live || tail < data.getLong(64)) {
            throw new IOException(path + ": the header is damaged; run binlog check");
        }
        return new Header(closed, 256, tail, data.getLong(48), data.getLong(48) + data.getLong(72));
    }

    private static ByteBuffer readFirst(FileChannel file) throws IOException {
        ByteBuffer data = ByteBuffer.allocate(256);
        while (data.hasRemaining() && file.read(data, data.position()) > 0) {}
        return data.flip();
    }

    /** Return the CRC-32C of parts of a header; each part has its begin and its end. */
    private static int crc(byte[] data, int... parts) {
        CRC32C crc = new CRC32C();
        for (int each = 0; each < parts.length; each += 2) crc.update(data, parts[each], parts[each + 1] - parts[each]);
        return (int) crc.getValue();
    }

    public static void main(String[] words) throws InterruptedException {
        boolean follow = words.length > 0 && words[0].equals("-f");
        if (follow) words = Arrays.copyOfRange(words, 1, words.length);
        String ref = words.length == 2 ? words[1] : "0:0";
        if (words.length < 1 || words.length > 2 || !ref.matches("[0-9]{1,8}:[0-9]{1,18}")) {
            System.err.println("usage: java ReadLog.java [-f] DIR [FILE:OFFSET]");
            System.exit(2);
        }
        int number = Integer.parseInt(ref.split(":")[0]);
        long offset = Long.parseLong(ref.split(":")[1]);
        try {
            new ReadLog(Path.of(words[0]), follow, (at, next, record) -> {
                System.out.println(at + " " + next + " " + Base64.getEncoder().encodeToString(record));
            }).read(number, offset);
        } catch (IOException error) {
            System.err.println(error.getMessage());
            System.exit(1);
        }
    }
}
