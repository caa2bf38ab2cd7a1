/* A walk through the messages of a commit log, which collects their queue units and keys. */
#include "message.h"

#include "message_parse.h"

#include "big_endian.h"
#include "layout.h"

#include <string.h>

/* Java's String.hashCode runs over UTF-16 units, but these bytes are UTF-8: the lead byte gives the length of a sequence. */
static uint32_t java_hash(uint32_t hash, const uint8_t *text, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes;) {
        uint32_t lead = text[i++], more = lead < 0xC0 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        uint32_t point = more == 0 ? lead : lead & (0x3Fu >> more);
        for (; more > 0 && i < bytes; more--)
            point = point << 6 | (text[i++] & 0x3F);
        if (point > 0xFFFF) {
            hash = 31 * hash + (0xD7C0 + (point >> 10));
            point = 0xDC00 + (point & 0x3FF);
        }
        hash = 31 * hash + point;
    }
    return hash;
}

/* The absolute value of the hash of `topic#key`; 0 for the hash whose absolute value does not fit in a Java int. */
static int64_t key_hash(const struct message_view *message, const uint8_t *key, uint32_t bytes)
{
    uint32_t hash = java_hash(0, message->topic, message->topic_bytes);
    hash = java_hash(java_hash(hash, (const uint8_t *)"#", 1), key, bytes);
    int64_t value = (int32_t)hash;
    return value == INT32_MIN ? 0 : value < 0 ? -value : value;
}

/* How long the messages of each delay level wait, as in RocketMQ's MessageStoreConfig. */
static const uint32_t delay_seconds[] = {1,   5,   10,  30,  60,  120, 180,  240,  300,
                                         360, 420, 480, 540, 600, 1200, 1800, 3600, 7200};
#define DELAY_LEVELS (sizeof delay_seconds / sizeof *delay_seconds)

/* Return the delay level of a delayed message, at most the highest one; 0 for all other messages. */
static uint32_t delay_level(const struct message_view *message)
{
    static const char topic[] = "SCHEDULE_TOPIC_XXXX";
    uint32_t bytes, level = 0;
    if (message->topic_bytes != sizeof topic - 1 || memcmp(message->topic, topic, sizeof topic - 1) != 0)
        return 0;
    const uint8_t *text = find_property(message, "DELAY", 5, &bytes);
    for (uint32_t i = 0; text && i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        level = level * 10 + (text[i] - '0');
        level = level < DELAY_LEVELS ? level : (uint32_t)DELAY_LEVELS;
    }
    return level;
}

/* Return the tag code of a queue unit: the due time of a delayed message, or the hash of the tag. */
static uint64_t tag_code(const struct message_view *message)
{
    uint32_t bytes, level = delay_level(message);
    if (level > 0)
        return message->store_ms + UINT64_C(1000) * delay_seconds[level - 1];
    const uint8_t *tag = find_property(message, "TAGS", 4, &bytes);
    return tag ? (uint64_t)(int64_t)(int32_t)java_hash(0, tag, bytes) : 0;
}

/* The results of a walk so far. */
struct walk {
    PyObject *runs;  /* of one queue each: (topic, queue id, first queue offset, units) */
    PyObject *keys;  /* bytearray: hash, offset and store time of each key, as int64 */
    uint8_t *units;  /* of the current run */
    Py_ssize_t unit_count;
    struct message_view first; /* its first message */
    uint64_t store_ms;
};

static int end_run(struct walk *walk)
{
    if (walk->unit_count == 0)
        return 0;
    PyObject *run = Py_BuildValue(
        "(y#iLy#)", walk->first.topic, (Py_ssize_t)walk->first.topic_bytes, (int)walk->first.queue_id,
        (long long)walk->first.queue_offset, walk->units, walk->unit_count * (Py_ssize_t)QUEUE_UNIT_BYTES);
    walk->unit_count = 0;
    int result = run ? PyList_Append(walk->runs, run) : -1;
    Py_XDECREF(run);
    return result;
}

static int add_key(struct walk *walk, const struct message_view *message, uint64_t offset, const uint8_t *key, uint32_t bytes)
{
    int64_t entry[3] = {key_hash(message, key, bytes), (int64_t)offset, (int64_t)message->store_ms};
    PyObject *more = PyBytes_FromStringAndSize((const char *)entry, sizeof entry);
    PyObject *all = more ? PySequence_InPlaceConcat(walk->keys, more) : NULL;
    Py_XDECREF(more);
    Py_XDECREF(all); /* the same object, because a bytearray grows in place */
    return all ? 0 : -1;
}

static int add_keys(struct walk *walk, const struct message_view *message, uint64_t offset)
{
    uint32_t bytes;
    const uint8_t *key = find_property(message, "UNIQ_KEY", 8, &bytes);
    if (key && bytes > 0 && add_key(walk, message, offset, key, bytes) != 0)
        return -1;
    key = find_property(message, "KEYS", 4, &bytes);
    for (const uint8_t *end = key ? key + bytes : NULL; key && key < end;) {
        const uint8_t *stop = memchr(key, ' ', (size_t)(end - key));
        stop = stop ? stop : end;
        if (stop > key && add_key(walk, message, offset, key, (uint32_t)(stop - key)) != 0)
            return -1;
        key = stop + 1;
    }
    return 0;
}

static int add_unit(struct walk *walk, const struct message_view *message, uint64_t offset)
{
    const struct message_view *first = &walk->first;
    int continues = walk->unit_count > 0 && first->queue_id == message->queue_id &&
                  first->queue_offset + (uint64_t)walk->unit_count == message->queue_offset &&
                  first->topic_bytes == message->topic_bytes && memcmp(first->topic, message->topic, message->topic_bytes) == 0;
    if (!continues) {
        if (end_run(walk) != 0)
            return -1;
        walk->first = *message;
    }
    uint8_t *unit = walk->units + walk->unit_count++ * QUEUE_UNIT_BYTES;
    put_u64(unit + QUEUE_UNIT_OFFSET, offset);
    put_u32(unit + QUEUE_UNIT_MESSAGE_BYTES, message->bytes);
    put_u64(unit + QUEUE_UNIT_TAG_CODE, tag_code(message));
    return 0;
}

static int add(struct walk *walk, const struct message_view *message, uint64_t offset)
{
    uint32_t kind = message->flag & MESSAGE_TRANSACTION;
    walk->store_ms = message->store_ms;
    if (kind != MESSAGE_ROLLBACK && add_keys(walk, message, offset) != 0)
        return -1;
    return kind == MESSAGE_ROLLBACK || kind == MESSAGE_PREPARED ? 0 : add_unit(walk, message, offset);
}

/* walk_messages(data, offset, check): walk through whole messages from the start of `data`, which is at `offset` of the log.
 *
 * Returns the size of the messages, why the walk ended, the runs of queue units, the keys, and the last store time. */
PyObject *binlog_walk_messages(PyObject *module, PyObject *args)
{
    Py_buffer data;
    unsigned long long offset;
    int check;
    struct walk walk = {0};
    PyObject *result = NULL;
    Py_ssize_t at = 0;
    enum walk_stop stop = WALK_END;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*Kp:walk_messages", &data, &offset, &check))
        return NULL;
    walk.runs = PyList_New(0);
    walk.keys = PyByteArray_FromStringAndSize(NULL, 0);
    walk.units = PyMem_Malloc((size_t)(data.len / (Py_ssize_t)MESSAGE_BYTES + 1) * QUEUE_UNIT_BYTES);
    int failed = !walk.runs || !walk.keys || !walk.units;
    while (!failed && at < data.len) {
        struct message_view message;
        const uint8_t *from = (const uint8_t *)data.buf + at;
        stop = parse_message(from, (size_t)(data.len - at), offset + (uint64_t)at, check, &message);
        if (stop != WALK_END)
            break;
        failed = add(&walk, &message, offset + (uint64_t)at) != 0;
        at += message.bytes;
    }
    if (!failed && end_run(&walk) == 0)
        result = Py_BuildValue("(niOOL)", at, (int)stop, walk.runs, walk.keys, (long long)walk.store_ms);
    Py_XDECREF(walk.runs);
    Py_XDECREF(walk.keys);
    PyMem_Free(walk.units);
    PyBuffer_Release(&data);
    return result;
}
