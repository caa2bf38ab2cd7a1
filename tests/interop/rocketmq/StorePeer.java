/*
 * Writes and reads stores with the real Apache RocketMQ.
 *
 *   write FOLDER OUT NAME=VALUE...   write a store with many kinds of messages; how=killed ends without a clean stop
 *   read FOLDER ASKED OUT NAME=VALUE...   report every message: by offset, by queue, and by the keys in ASKED;
 *                                    add=1 then appends one; hold=PATH creates that file, and waits until it is removed;
 *                                    then stop cleanly
 *   feature FOLDER OUT NAME=VALUE...   write a few messages to a store that uses a feature of version 5, stop cleanly:
 *                                    topic.NAME=VALUE sets an attribute of the topic, store_type=defaultRocksDB keeps
 *                                    queues elsewhere, lmq=1 puts messages into two queues, extension=1 extends queues
 *   append FOLDER OUT NAME=VALUE...   open a store, append count=N messages with bodies of body=N bytes, stop cleanly
 *
 * OUT is JSON.  The names are those of settings() below.
 */

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.Deflater;
import org.apache.rocketmq.common.*;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.store.*;
import org.apache.rocketmq.store.config.*;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

public class StorePeer {
    /* Its CRC-32 without the highest bit is 0. */
    private static final byte[] BODY_OF_CRC_0 = {(byte) 0x9D, 0x0A, (byte) 0xD9, 0x6D};

    private static final int BLANK_MAGIC_CODE = 0xCBD43194; // private in version 4

    private final Map<String, String> settings;
    private final DefaultMessageStore store;
    private final List<Object> calls = new ArrayList<>();
    private final InetSocketAddress storeHost;

    public static void main(String[] arguments) {
        int code = 0;
        try {
            run(arguments);
        } catch (Throwable error) {
            error.printStackTrace();
            code = 1;
        }
        Runtime.getRuntime().halt(code); // the store's threads would continue
    }

    private static void run(String[] arguments) throws Exception {
        boolean reading = arguments[0].equals("read");
        Map<String, String> settings = new LinkedHashMap<>();
        for (int i = reading ? 4 : 3; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        StorePeer peer = new StorePeer(arguments[1], settings);
        Path out = Path.of(arguments[reading ? 3 : 2]);
        if (reading) {
            peer.read(Path.of(arguments[2]), out);
        } else if (arguments[0].equals("write")) {
            peer.write(out);
        } else if (arguments[0].equals("feature")) {
            peer.feature(out);
        } else {
            peer.append(out);
        }
    }

    private StorePeer(String folder, Map<String, String> settings) throws Exception {
        this.settings = settings;
        this.storeHost = host(setting("store_host", "127.0.0.1"), 10911);
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(folder);
        config.setStorePathCommitLog(folder + "/commitlog");
        config.setMappedFileSizeCommitLog(number("file_bytes", 16384));
        config.setMappedFileSizeConsumeQueue(number("units_in_file", 20) * 20);
        config.setMaxHashSlotNum(number("slots", 50));
        config.setMaxIndexNum(number("entries", 60));
        config.setFlushDiskType(FlushDiskType.valueOf(setting("flush", "sync").toUpperCase() + "_FLUSH"));
        config.setHaListenPort(0);
        config.setFileReservedTime(1_000_000); // hours
        config.setDiskMaxUsedSpaceRatio(99);
        // Unknown to version 4.
        call(config, "setEnabledAppendPropCRC", boolean.class, setting("record_crc", "0").equals("1"));
        call(config, "setForceVerifyPropCRC", boolean.class, setting("verify", "0").equals("1"));
        call(config, "setEnableLmq", boolean.class, setting("lmq", "0").equals("1"));
        call(config, "setEnableMultiDispatch", boolean.class, setting("lmq", "0").equals("1"));
        config.setEnableConsumeQueueExt(setting("extension", "0").equals("1"));
        config.setMappedFileSizeConsumeQueueExt(4096);
        this.store = make(config);
    }

    private String setting(String name, String otherwise) {
        return settings.getOrDefault(name, otherwise);
    }

    private int number(String name, int otherwise) {
        return Integer.parseInt(setting(name, String.valueOf(otherwise)));
    }

    private static void call(Object object, String name, Class<?> type, Object value) throws Exception {
        for (Method method : object.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterTypes()[0] == type) {
                method.invoke(object, value);
                return;
            }
        }
        if (Boolean.TRUE.equals(value)) {
            throw new UnsupportedOperationException("this version has no " + name);
        }
    }

    /* The constructor has one more argument since version 5.2. */
    private DefaultMessageStore make(MessageStoreConfig config) throws Exception {
        MessageArrivingListener nobody = (MessageArrivingListener) java.lang.reflect.Proxy.newProxyInstance(
            StorePeer.class.getClassLoader(), new Class<?>[] {MessageArrivingListener.class}, (proxy, method, given) -> null);
        BrokerStatsManager stats = new BrokerStatsManager("peer", true);
        boolean rocks = setting("store_type", "default").equals("defaultRocksDB");
        Class<?> kind = rocks ? Class.forName("org.apache.rocketmq.store.RocksDBMessageStore") : DefaultMessageStore.class;
        for (Constructor<?> constructor : kind.getConstructors()) {
            Object[] given = {config, stats, nobody, new BrokerConfig(), topics()};
            if (constructor.getParameterCount() >= 4 && constructor.getParameterCount() <= given.length) {
                return (DefaultMessageStore) constructor.newInstance(
                    java.util.Arrays.copyOf(given, constructor.getParameterCount()));
            }
        }
        throw new IllegalStateException("a DefaultMessageStore is made in another way");
    }

    /* The contents of a broker's config/topics.json. */
    private ConcurrentHashMap<String, TopicConfig> topics() throws Exception {
        Map<String, String> attributes = new LinkedHashMap<>();
        for (Map.Entry<String, String> entry : settings.entrySet()) {
            if (entry.getKey().startsWith("topic.")) {
                attributes.put(entry.getKey().substring("topic.".length()), entry.getValue());
            }
        }
        ConcurrentHashMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        if (!attributes.isEmpty()) {
            TopicConfig topic = new TopicConfig("special");
            call(topic, "setAttributes", Map.class, attributes);
            topics.put("special", topic);
        }
        return topics;
    }

    private void start() throws Exception {
        if (!store.load()) {
            throw new IllegalStateException("the store cannot be loaded");
        }
        store.start();
    }

    private static InetSocketAddress host(String address, int port) throws Exception {
        return new InetSocketAddress(InetAddress.getByName(address), port);
    }

    // Writing.

    private void write(Path out) throws Exception {
        start();
        kindsOfMessages();
        for (int i = 0; i < 90; i++) {
            MessageExtBrokerInner message = message("orders", i % 3, text(i, i * 37 % 500));
            message.setTags(new String[] {"paid", "sent", "Aa", "BB"}[i % 4]); // the last two have one hash
            message.setKeys("order-" + i + (i % 5 == 0 ? " fifth" : ""));
            put(message);
            if (i % 15 == 14) {
                putBatch("audit", i / 15 % 2, 4 + i / 3);
            }
        }
        transactions();
        for (int i = 0; i < 25; i++) {
            put(message("audit", 5, text(i, 10)));
        }
        dispatched();
        Map<String, Object> all = found(new TreeMap<>(Map.of("orders", List.of("fifth", "order-7", "none"))));
        all.put("calls", calls);
        Json.save(all, out);
        if (setting("how", "clean").equals("killed")) {
            Runtime.getRuntime().halt(137);
        }
        store.shutdown();
    }

    private void feature(Path out) throws Exception {
        start();
        for (int i = 0; i < 5; i++) {
            MessageExtBrokerInner message = message("special", 0, text(i, 30));
            message.setTags("paid");
            message.setKeys("order-" + i);
            if ("BatchCQ".equals(settings.get("topic.queue.type"))) {
                message.setSysFlag(1 << 7);
                MessageAccessor.putProperty(message, "INNER_NUM", "3");
            }
            if (setting("lmq", "0").equals("1")) {
                MessageAccessor.putProperty(message, "INNER_MULTI_DISPATCH", setting("queues", "%LMQ%one,%LMQ%two"));
            }
            put(message);
        }
        dispatched();
        Json.save(Map.of("calls", calls), out);
        store.shutdown();
    }

    private void append(Path out) throws Exception {
        start();
        for (int i = 0; i < number("count", 1); i++) {
            MessageExtBrokerInner message = message("orders", 0, text(i, number("body", 20)));
            message.setKeys("later-" + i);
            message.setTags("paid");
            put(message);
        }
        dispatched();
        hold();
        Json.save(Map.of("calls", calls, "max_offset", store.getMaxPhyOffset()), out);
        store.shutdown();
    }

    private void kindsOfMessages() throws Exception {
        put(message("orders", 0, new byte[0])); // its CRC is 0
        put(message("orders", 0, BODY_OF_CRC_0));

        MessageExtBrokerInner much = message("orders", 1, text(1, 300));
        much.setFlag(-7);
        much.setReconsumeTimes(3);
        much.setBornTimestamp(1_600_000_000_123L);
        much.setTags("paid");
        much.setKeys("k1 k2");
        MessageAccessor.putProperty(much, MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, "7F00000100002A9F0001");
        MessageAccessor.putProperty(much, "Ünïcode", "汉字 \uD83D\uDE00");
        put(much);

        MessageExtBrokerInner six = message("orders", 1, text(2, 200));
        six.setBornHost(host("2001:db8::17", 50000));
        six.setTags("汉字");
        put(six);

        put(message("t".repeat(127), 0, text(3, 20)));
        if (setting("long_topics", "1").equals("1")) {
            put(message("t".repeat(128), 1, text(4, 20))); // version 2 of the layout
        }
        put(message("%RETRY%group", 0, text(5, 20)));

        MessageExtBrokerInner delayed = message("SCHEDULE_TOPIC_XXXX", 2, text(6, 40));
        MessageAccessor.putProperty(delayed, MessageConst.PROPERTY_REAL_TOPIC, "orders");
        MessageAccessor.putProperty(delayed, MessageConst.PROPERTY_REAL_QUEUE_ID, "1");
        delayed.setDelayTimeLevel(3);
        delayed.setTags("paid");
        put(delayed);

        // These lack the end byte that the CRC property needs before it.
        MessageExtBrokerInner unended = message("orders", 2, text(7, 10));
        unended.setPropertiesString("KEYS\u0001last");
        putAsItIs(unended);

        MessageExtBrokerInner compressed = message("orders", 2, deflated(text(8, 2000)));
        compressed.setSysFlag(MessageSysFlag.COMPRESSED_FLAG | 3 << 8);
        put(compressed);
    }

    private void transactions() throws Exception {
        MessageExtBrokerInner half = message("RMQ_SYS_TRANS_HALF_TOPIC", 0, text(9, 60));
        MessageAccessor.putProperty(half, MessageConst.PROPERTY_REAL_TOPIC, "orders");
        MessageAccessor.putProperty(half, MessageConst.PROPERTY_REAL_QUEUE_ID, "0");
        MessageAccessor.putProperty(half, MessageConst.PROPERTY_TRANSACTION_PREPARED, "true");
        long at = put(half);
        for (int kind : new int[] {
            MessageSysFlag.TRANSACTION_PREPARED_TYPE, MessageSysFlag.TRANSACTION_COMMIT_TYPE,
            MessageSysFlag.TRANSACTION_ROLLBACK_TYPE}) {
            MessageExtBrokerInner message = message("orders", 0, text(kind, 60));
            message.setSysFlag(kind);
            message.setKeys("transaction");
            message.setPreparedTransactionOffset(kind == MessageSysFlag.TRANSACTION_PREPARED_TYPE ? 0 : at);
            put(message);
        }
    }

    private MessageExtBrokerInner message(String topic, int queueId, byte[] body) throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(topic);
        message.setQueueId(queueId);
        message.setBody(body);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(host("10.1.2.3", 50000));
        message.setStoreHost(storeHost);
        MessageAccessor.setProperties(message, new java.util.HashMap<>()); // without this call there are none
        return message;
    }

    private long put(MessageExtBrokerInner message) throws Exception {
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return putAsItIs(message);
    }

    private long putAsItIs(MessageExtBrokerInner message) throws Exception {
        return told(store.putMessage(message));
    }

    private void putBatch(String topic, int queueId, int count) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message message = new Message(topic, "paid", "batch-" + i, text(i, 150));
            message.setFlag(i);
            messages.add(message);
        }
        MessageExtBatch batch = new MessageExtBatch();
        batch.setTopic(topic);
        batch.setQueueId(queueId);
        batch.setBornTimestamp(System.currentTimeMillis());
        batch.setBornHost(host("10.1.2.3", 50000));
        batch.setStoreHost(storeHost);
        batch.setBody(MessageDecoder.encodeMessages(messages));
        told(store.putMessages(batch));
    }

    private long told(PutMessageResult result) {
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException("the store said " + result.getPutMessageStatus());
        }
        AppendMessageResult done = result.getAppendMessageResult();
        calls.add(done.getMsgId());
        return done.getWroteOffset();
    }

    private static byte[] text(int number, int bytes) {
        String words = "message " + number + " ";
        return words.repeat(bytes / words.length() + 1).substring(0, bytes).getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] deflated(byte[] data) {
        Deflater deflater = new Deflater();
        deflater.setInput(data);
        deflater.finish();
        byte[] out = new byte[data.length + 100];
        return java.util.Arrays.copyOf(out, deflater.deflate(out));
    }

    /* Wait until all messages were dispatched to the queues and the index. */
    private void dispatched() throws InterruptedException {
        for (int i = 0; store.dispatchBehindBytes() > 0; i++) {
            if (i == 3000) {
                throw new IllegalStateException("the store does not dispatch");
            }
            Thread.sleep(10);
        }
    }

    // Reading.

    private void read(Path asked, Path out) throws Exception {
        start();
        dispatched();
        Map<String, List<String>> keys = new TreeMap<>();
        for (String line : Files.readAllLines(asked)) {
            String[] pair = line.split(" ", 2);
            keys.computeIfAbsent(pair[0], topic -> new ArrayList<>()).add(pair[1]);
        }
        Map<String, Object> all = found(keys);
        if (setting("add", "0").equals("1")) {
            put(message("orders", 0, "from the real store".getBytes(StandardCharsets.UTF_8)));
            all.put("calls", calls);
        }
        hold();
        Json.save(all, out);
        store.shutdown();
    }

    private void hold() throws Exception {
        if (settings.containsKey("hold")) {
            Path path = Files.createFile(Path.of(settings.get("hold")));
            while (Files.exists(path)) {
                Thread.sleep(10);
            }
        }
    }

    private Map<String, Object> found(Map<String, List<String>> asked) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("version", MQVersion.getVersionDesc(MQVersion.CURRENT_VERSION));
        all.put("settings", settings);
        all.put("min_offset", store.getMinPhyOffset());
        all.put("max_offset", store.getMaxPhyOffset());
        List<Object> messages = new ArrayList<>();
        Map<String, Object> queues = new TreeMap<>();
        for (long at = store.getMinPhyOffset(); at < store.getMaxPhyOffset();) {
            MessageExt message = look(at);
            if (message == null) { // the rest of a file
                at += number("file_bytes", 16384) - at % number("file_bytes", 16384);
                continue;
            }
            messages.add(fields(message));
            queues.put(message.getTopic() + " " + message.getQueueId(), null);
            at += message.getStoreSize();
        }
        all.put("messages", messages);
        for (Map.Entry<String, Object> entry : queues.entrySet()) {
            String[] name = entry.getKey().split(" ");
            entry.setValue(queue(name[0], Integer.parseInt(name[1])));
        }
        all.put("queues", queues);
        Map<String, Object> keys = new TreeMap<>();
        for (Map.Entry<String, List<String>> entry : asked.entrySet()) {
            for (String key : entry.getValue()) {
                keys.put(entry.getKey() + " " + key, byKey(entry.getKey(), key));
            }
        }
        all.put("keys", keys);
        return all;
    }

    private MessageExt look(long at) {
        SelectMappedBufferResult found = store.selectOneMessageByOffset(at);
        if (found == null) {
            return null;
        }
        try {
            int magic = found.getByteBuffer().getInt(4);
            return magic == BLANK_MAGIC_CODE ? null : MessageDecoder.decode(found.getByteBuffer(), true, false);
        } finally {
            found.release();
        }
    }

    /* The offset of each message, from the consume queue. */
    private List<Object> queue(String topic, int queueId) throws Exception {
        List<Object> offsets = new ArrayList<>();
        long stop = store.getMaxOffsetInQueue(topic, queueId);
        for (long index = store.getMinOffsetInQueue(topic, queueId); index < stop; index++) {
            GetMessageResult found = store.getMessage("group", topic, queueId, index, 1, null);
            if (found == null || found.getStatus() != GetMessageStatus.FOUND) {
                throw new IllegalStateException(topic + " " + queueId + " " + index + ": " +
                    (found == null ? null : found.getStatus()));
            }
            MessageExt message = MessageDecoder.decode(found.getMessageBufferList().get(0), true, false);
            if (message.getQueueOffset() != index) {
                throw new IllegalStateException("message " + message.getQueueOffset() + " at " + index);
            }
            offsets.add(message.getCommitLogOffset());
            found.release();
        }
        return offsets;
    }

    private List<Object> byKey(String topic, String key) {
        List<Object> offsets = new ArrayList<>();
        QueryMessageResult found = store.queryMessage(topic, key, 64, 0, Long.MAX_VALUE);
        for (ByteBuffer buffer : found.getMessageBufferList()) {
            offsets.add(MessageDecoder.decode(buffer, true, false).getCommitLogOffset());
        }
        found.release();
        return offsets;
    }

    private static Map<String, Object> fields(MessageExt message) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("topic", message.getTopic());
        fields.put("body", Base64.getEncoder().encodeToString(message.getBody() == null ? new byte[0] : message.getBody()));
        fields.put("body_crc", message.getBodyCRC());
        fields.put("properties", message.getProperties() == null ? Map.of() : new TreeMap<>(message.getProperties()));
        fields.put("queue_id", message.getQueueId());
        fields.put("flag", message.getFlag());
        fields.put("queue_offset", message.getQueueOffset());
        fields.put("offset", message.getCommitLogOffset());
        fields.put("system_flag", message.getSysFlag());
        fields.put("born_ms", message.getBornTimestamp());
        fields.put("born_host", hostText(message.getBornHost()));
        fields.put("store_ms", message.getStoreTimestamp());
        fields.put("store_host", hostText(message.getStoreHost()));
        fields.put("reconsume_count", message.getReconsumeTimes());
        fields.put("prepared_offset", message.getPreparedTransactionOffset());
        fields.put("message_bytes", message.getStoreSize());
        fields.put("id", message.getMsgId());
        return fields;
    }

    /* The address in hexadecimal digits, and the port. */
    private static String hostText(java.net.SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        StringBuilder text = new StringBuilder();
        for (byte each : host.getAddress().getAddress()) {
            text.append(String.format("%02x", each));
        }
        return text + " " + host.getPort();
    }
}
