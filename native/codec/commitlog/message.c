/* Packing of many messages from Python's objects, and stamping them with the values that are known only under the lock.
 *
 * A message is a tuple with the order of `Message` in binlog/commitlog/append/message.py.  pack_message in
 * binlog/format/commitlog/message.py is the reference for the bytes, except that it takes properties in the format of the
 * file, while here the last property may lack its end byte.
 */
#include "message.h"

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#include <string.h>

#define TOPIC_V1_MAX 127
#define PART_MAX 32767 /* of a topic, of properties: the largest short in Java */
#define HOST_V4 8
#define PROPERTY_END 2

enum part { TOPIC, BODY, PROPERTIES, QUEUE_ID, FLAG, SYSTEM_FLAG, BORN_MS, BORN_HOST, RECONSUME_COUNT, PREPARED_OFFSET, PARTS };

/* One message; the pointers are valid as long as its tuple. */
struct message {
    const char *topic, *body, *properties, *born_host;
    Py_ssize_t topic_bytes, body_bytes, properties_bytes, born_bytes;
    long long queue_id, flag, system_flag, born_ms, reconsume_count, prepared_offset;
};

/* The values that all messages of a call share. */
struct common {
    const char *store_host;
    Py_ssize_t store_bytes;
    int with_crc;
};

static int get_bytes(PyObject *tuple, enum part part, const char **data, Py_ssize_t *bytes)
{
    char *found;
    if (PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, part), &found, bytes) != 0)
        return -1;
    *data = found;
    return 0;
}

static int get_number(PyObject *tuple, enum part part, int bits, long long *number)
{
    *number = PyLong_AsLongLong(PyTuple_GetItem(tuple, part));
    if (*number == -1 && PyErr_Occurred())
        return -1;
    if (bits == 32 && (*number < INT32_MIN || *number > INT32_MAX)) {
        PyErr_Format(PyExc_ValueError, "%lld does not fit in 32 bits", *number);
        return -1;
    }
    return 0;
}

static int get_message(PyObject *tuple, struct message *message)
{
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != PARTS) {
        PyErr_SetString(PyExc_TypeError, "a message must be a tuple of ten");
        return -1;
    }
    message->topic = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, TOPIC), &message->topic_bytes);
    if (!message->topic || get_bytes(tuple, BODY, &message->body, &message->body_bytes) != 0 ||
        get_bytes(tuple, PROPERTIES, &message->properties, &message->properties_bytes) != 0 ||
        get_bytes(tuple, BORN_HOST, &message->born_host, &message->born_bytes) != 0)
        return -1;
    if (get_number(tuple, QUEUE_ID, 32, &message->queue_id) != 0 || get_number(tuple, FLAG, 32, &message->flag) != 0 ||
        get_number(tuple, SYSTEM_FLAG, 32, &message->system_flag) != 0 ||
        get_number(tuple, BORN_MS, 64, &message->born_ms) != 0 ||
        get_number(tuple, RECONSUME_COUNT, 32, &message->reconsume_count) != 0 ||
        get_number(tuple, PREPARED_OFFSET, 64, &message->prepared_offset) != 0)
        return -1;
    return 0;
}

static int is_host(Py_ssize_t bytes)
{
    return bytes == HOST_V4 || bytes == HOST_V4 + MESSAGE_IPV6_EXTRA;
}

/* Return whether the properties lack their end byte, which they need before the CRC property. */
static int is_unended(const struct message *message, const struct common *common)
{
    return common->with_crc && message->properties_bytes > 0 &&
           message->properties[message->properties_bytes - 1] != PROPERTY_END;
}

/* Return the size of the properties in the file, including the CRC. */
static Py_ssize_t all_properties_bytes(const struct message *message, const struct common *common)
{
    return message->properties_bytes + is_unended(message, common) + (common->with_crc ? MESSAGE_CRC_BYTES : 0);
}

/* Return the size of the message; -1 with an exception. */
static int64_t message_bytes(const struct message *message, const struct common *common, Py_ssize_t body_max)
{
    Py_ssize_t properties = all_properties_bytes(message, common);
    if (message->body_bytes > body_max || message->topic_bytes > PART_MAX || properties > PART_MAX ||
        !is_host(message->born_bytes)) {
        PyErr_Format(PyExc_ValueError, "a body of %zd bytes, a topic of %zd, properties of %zd: one is too long",
                     message->body_bytes, message->topic_bytes, properties);
        return -1;
    }
    if (!common->with_crc &&
        message_ends_with_crc((const uint8_t *)message->properties, (size_t)message->properties_bytes) != CRC_NONE) {
        /* a reader would take it for the CRC of the message, and report damage */
        PyErr_SetString(PyExc_ValueError, "the properties must not end like the CRC of a message, or a part of it");
        return -1;
    }
    return (int64_t)MESSAGE_BYTES - 2 * HOST_V4 + message->born_bytes + common->store_bytes + message->body_bytes +
           (message->topic_bytes > TOPIC_V1_MAX ? 2 : 1) + message->topic_bytes + 2 + properties;
}

static uint8_t *put_bytes(uint8_t *at, const char *data, Py_ssize_t bytes)
{
    memcpy(at, data, (size_t)bytes);
    return at + bytes;
}

static void put_message(uint8_t *data, int64_t bytes, const struct message *message, const struct common *common)
{
    int wide = message->topic_bytes > TOPIC_V1_MAX;
    int flag = (int)message->system_flag & ~(MESSAGE_BORN_HOST_V6 | MESSAGE_STORE_HOST_V6);
    flag |= message->born_bytes > HOST_V4 ? MESSAGE_BORN_HOST_V6 : 0;
    flag |= common->store_bytes > HOST_V4 ? MESSAGE_STORE_HOST_V6 : 0;

    put_u32(data + MESSAGE_MESSAGE_BYTES, (uint32_t)bytes);
    put_u32(data + MESSAGE_MAGIC, wide ? MESSAGE_V2 : MESSAGE_V1);
    put_u32(data + MESSAGE_BODY_CRC,
            binlog_crc32(0, (const uint8_t *)message->body, (size_t)message->body_bytes) & INT32_MAX);
    put_u32(data + MESSAGE_QUEUE_ID, (uint32_t)message->queue_id);
    put_u32(data + MESSAGE_FLAG, (uint32_t)message->flag);
    put_u64(data + MESSAGE_QUEUE_OFFSET, 0);
    put_u64(data + MESSAGE_OFFSET, 0);
    put_u32(data + MESSAGE_SYSTEM_FLAG, (uint32_t)flag);
    put_u64(data + MESSAGE_BORN_MS, (uint64_t)message->born_ms);
    uint8_t *at = put_bytes(data + MESSAGE_BORN_ADDRESS, message->born_host, message->born_bytes);
    put_u64(at, 0);
    at = put_bytes(at + 8, common->store_host, common->store_bytes);
    put_u32(at, (uint32_t)message->reconsume_count);
    put_u64(at + 4, (uint64_t)message->prepared_offset);
    put_u32(at + 12, (uint32_t)message->body_bytes);
    at = put_bytes(at + 16, message->body, message->body_bytes);
    if (wide)
        put_u16(at++, (uint16_t)message->topic_bytes);
    else
        *at = (uint8_t)message->topic_bytes;
    at = put_bytes(at + 1, message->topic, message->topic_bytes);
    put_u16(at, (uint16_t)all_properties_bytes(message, common));
    at = put_bytes(at + 2, message->properties, message->properties_bytes);
    if (is_unended(message, common))
        *at = PROPERTY_END;
    /* stamp_messages adds the CRC */
}

/* Return the size of all messages; -1 with an exception. */
static int64_t all_bytes(PyObject *messages, const struct common *common, Py_ssize_t body_max)
{
    int64_t total = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(messages); i++) {
        struct message message;
        if (get_message(PyList_GetItem(messages, i), &message) != 0)
            return -1;
        int64_t bytes = message_bytes(&message, common, body_max);
        if (bytes < 0)
            return -1;
        total += bytes;
    }
    if (total > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "the messages of one call take 2 GiB or more");
        return -1;
    }
    return total;
}

/* A half message and one that was rolled back are in no queue, and have the queue offset 0. */
static int is_queued(uint32_t system_flag)
{
    uint32_t kind = system_flag & MESSAGE_TRANSACTION;
    return kind != MESSAGE_PREPARED && kind != MESSAGE_ROLLBACK;
}

/* Return whether two messages have the same queue and the same flag. */
static int are_same_run(PyObject *one, PyObject *other)
{
    struct message a, b;
    return one == other || (get_message(one, &a) == 0 && get_message(other, &b) == 0 && a.queue_id == b.queue_id &&
                            a.system_flag == b.system_flag && a.topic_bytes == b.topic_bytes &&
                            memcmp(a.topic, b.topic, (size_t)a.topic_bytes) == 0);
}

/* Return ((topic, queue id), whether the messages are in the queue, their number) for each run of messages with the same queue
 * and flag.  The messages were validated by all_bytes. */
static PyObject *runs_of(PyObject *messages)
{
    PyObject *runs = PyList_New(0);
    Py_ssize_t count = PyList_Size(messages), next;

    for (Py_ssize_t first = 0; runs && first < count; first = next) {
        PyObject *tuple = PyList_GetItem(messages, first);
        for (next = first + 1; next < count && are_same_run(tuple, PyList_GetItem(messages, next));)
            next++;
        int queued = is_queued((uint32_t)PyLong_AsLongLong(PyTuple_GetItem(tuple, SYSTEM_FLAG)));
        PyObject *run = Py_BuildValue("((OO)On)", PyTuple_GetItem(tuple, TOPIC), PyTuple_GetItem(tuple, QUEUE_ID),
                                      queued ? Py_True : Py_False, next - first);
        if (!run || PyList_Append(runs, run) != 0)
            Py_CLEAR(runs);
        Py_XDECREF(run);
    }
    return runs;
}

/* pack_messages(messages, store_host, with_crc, body_bytes_max): the packed messages, as a bytearray; the start of each and the
 * end of the last one, as uint32; and the result of runs_of.  Raises TypeError and ValueError. */
PyObject *binlog_pack_messages(PyObject *module, PyObject *args)
{
    PyObject *messages;
    Py_ssize_t body_max;
    struct common common;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!y#pn:pack_messages", &PyList_Type, &messages, &common.store_host, &common.store_bytes,
                          &common.with_crc, &body_max))
        return NULL;
    if (!is_host(common.store_bytes)) {
        PyErr_SetString(PyExc_ValueError, "a host must be an address of 4 or 16 bytes and a port of 4");
        return NULL;
    }
    int64_t total = all_bytes(messages, &common, body_max);
    if (total < 0)
        return NULL;
    Py_ssize_t count = PyList_Size(messages);
    PyObject *packed = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)total);
    PyObject *bounds = PyBytes_FromStringAndSize(NULL, (count + 1) * (Py_ssize_t)sizeof(uint32_t));
    PyObject *runs = runs_of(messages);
    if (!packed || !bounds || !runs) {
        Py_XDECREF(packed);
        Py_XDECREF(bounds);
        Py_XDECREF(runs);
        return NULL;
    }
    uint8_t *data = (uint8_t *)PyByteArray_AsString(packed), *at = data;
    char *bound = PyBytes_AsString(bounds);
    for (Py_ssize_t i = 0; i <= count; i++) {
        uint32_t start = (uint32_t)(at - data);
        memcpy(bound, &start, sizeof start);
        bound += sizeof start;
        if (i == count)
            break;
        struct message message;
        if (get_message(PyList_GetItem(messages, i), &message) != 0)
            continue; /* cannot happen: all_bytes has validated it */
        int64_t bytes = message_bytes(&message, &common, body_max);
        put_message(at, bytes, &message, &common);
        at += bytes;
    }
    return Py_BuildValue("(NNN)", packed, bounds, runs);
}

void message_crc_property(uint8_t *property, const uint8_t *message, size_t bytes)
{
    uint32_t crc = binlog_crc32(0, message, bytes) & INT32_MAX;
    uint8_t *at = put_bytes(property, MESSAGE_CRC_NAME, MESSAGE_CRC_NAME_BYTES);
    for (int i = 0; i < MESSAGE_CRC_DIGITS; i++, crc /= 10)
        *at++ = (uint8_t)('0' + crc % 10);
    *at = PROPERTY_END;
}

enum crc_state message_ends_with_crc(const uint8_t *properties, size_t bytes)
{
    uint8_t whole[MESSAGE_CRC_BYTES];
    int zeros = 0;

    if (bytes < MESSAGE_CRC_BYTES)
        return CRC_NONE;
    const uint8_t *at = properties + bytes - MESSAGE_CRC_BYTES;
    if (memcmp(at, MESSAGE_CRC_NAME, MESSAGE_CRC_NAME_BYTES) == 0)
        return CRC_WHOLE;
    message_crc_property(whole, NULL, 0);
    for (int i = 0; i < MESSAGE_CRC_BYTES; i++) {
        int is_digit = whole[i] == '0' && at[i] >= '0' && at[i] <= '9';
        if (at[i] != 0 && at[i] != whole[i] && !is_digit)
            return CRC_NONE;
        zeros += at[i] == 0;
    }
    return zeros > 0 ? CRC_PART : CRC_NONE;
}

/* stamp_messages(data, bounds, first, count, queue_offset, offset, store_ms, with_crc): stamp `count` messages from `first` on
 * with the values that are known under the lock: queue offsets from `queue_offset` on, log offsets for `data` at `offset`, the
 * store time, and the CRCs.  data, bounds: results of pack_messages. */
PyObject *binlog_stamp_messages(PyObject *module, PyObject *args)
{
    PyObject *packed, *bounds;
    Py_ssize_t first, count;
    long long queue_offset, offset, store_ms;
    int with_crc;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!nnLLLp:stamp_messages", &PyByteArray_Type, &packed, &PyBytes_Type, &bounds, &first,
                          &count, &queue_offset, &offset, &store_ms, &with_crc))
        return NULL;
    if (first < 0 || count < 0 || (first + count + 1) * (Py_ssize_t)sizeof(uint32_t) > PyBytes_Size(bounds)) {
        PyErr_SetString(PyExc_ValueError, "there are fewer messages");
        return NULL;
    }
    const uint32_t *starts = (const uint32_t *)PyBytes_AsString(bounds);
    uint8_t *data = (uint8_t *)PyByteArray_AsString(packed);
    for (Py_ssize_t i = first; i < first + count; i++) {
        uint8_t *message = data + starts[i];
        uint32_t flag = get_u32(message + MESSAGE_SYSTEM_FLAG);
        int queued = is_queued(flag);
        put_u64(message + MESSAGE_QUEUE_OFFSET, queued ? (uint64_t)queue_offset++ : 0);
        put_u64(message + MESSAGE_OFFSET, (uint64_t)offset + starts[i]);
        put_u64(message + MESSAGE_STORE_MS + (flag & MESSAGE_BORN_HOST_V6 ? MESSAGE_IPV6_EXTRA : 0), (uint64_t)store_ms);
        if (with_crc) {
            size_t bytes = starts[i + 1] - starts[i] - MESSAGE_CRC_BYTES;
            message_crc_property(message + bytes, message, bytes);
        }
    }
    Py_RETURN_NONE;
}
