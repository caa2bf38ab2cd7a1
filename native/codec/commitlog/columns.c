/* Messages of one queue as columns of numbers, or of bounds and values, with the layout of Arrow arrays.
 *
 * No Python object is created for any message.  Numbers have the byte order of the machine.  Bounds are int32, one more than
 * there are values.  A buffer may be longer than its contents.
 */
#include "message.h"

#include "message_parse.h"

#include "big_endian.h"
#include "layout.h"

#include <string.h>

/* In the order of COLUMNS in binlog/format/commitlog/compiled.py. */
enum column {
    QUEUE_OFFSET, OFFSET, BORN_TIME, STORE_TIME, PREPARED_OFFSET,  /* int64 */
    FLAG, SYSTEM_FLAG, RECONSUME_COUNT, BYTES,                     /* int32 */
    BODY, BORN_HOST, STORE_HOST, MESSAGE_ID, PROPERTIES,
    COLUMNS
};

/* The messages of the batch. */
struct batch {
    struct message_view *messages;
    int64_t *queue_offsets;
    Py_ssize_t count;
};

static uint32_t born_extra(const struct message_view *message)
{
    return message->flag & MESSAGE_BORN_HOST_V6 ? MESSAGE_IPV6_EXTRA : 0;
}

static uint32_t store_extra(const struct message_view *message)
{
    return message->flag & MESSAGE_STORE_HOST_V6 ? MESSAGE_IPV6_EXTRA : 0;
}

static uint32_t host_bytes(uint32_t extra)
{
    return MESSAGE_BORN_PORT + 4 - MESSAGE_BORN_ADDRESS + extra;
}

/* Convert milliseconds to microseconds, clamped to int64. */
static int64_t microseconds(uint64_t value)
{
    int64_t ms = (int64_t)value;
    return ms > INT64_MAX / 1000 ? INT64_MAX : ms < INT64_MIN / 1000 ? INT64_MIN : ms * 1000;
}

static int64_t number(const struct message_view *message, enum column column)
{
    const uint8_t *after_hosts = message->data + born_extra(message) + store_extra(message);
    switch (column) {
    case OFFSET: return (int64_t)get_u64(message->data + MESSAGE_OFFSET);
    case BORN_TIME: return microseconds(get_u64(message->data + MESSAGE_BORN_MS));
    case STORE_TIME: return microseconds(message->store_ms);
    case PREPARED_OFFSET: return (int64_t)get_u64(after_hosts + MESSAGE_PREPARED_OFFSET);
    case FLAG: return (int32_t)get_u32(message->data + MESSAGE_FLAG);
    case SYSTEM_FLAG: return (int32_t)message->flag;
    case RECONSUME_COUNT: return (int32_t)get_u32(after_hosts + MESSAGE_RECONSUME_COUNT);
    default: return message->bytes;
    }
}

/* Bounds are in a bytes object, whose start need not be aligned. */
static void put_bound(uint8_t *bounds, Py_ssize_t i, size_t value)
{
    int32_t bound = (int32_t)value;
    memcpy(bounds + i * (Py_ssize_t)sizeof bound, &bound, sizeof bound);
}

static PyObject *numbers(const struct batch *batch, enum column column)
{
    if (column == QUEUE_OFFSET)
        return PyBytes_FromStringAndSize((const char *)batch->queue_offsets, batch->count * 8);
    int width = column < FLAG ? 8 : 4;
    PyObject *values = PyBytes_FromStringAndSize(NULL, batch->count * width);
    if (!values)
        return NULL;
    char *at = PyBytes_AsString(values);
    for (Py_ssize_t i = 0; i < batch->count; i++, at += width) {
        int64_t value = number(&batch->messages[i], column); /* little-endian: the low half comes first */
        memcpy(at, &value, (size_t)width);
    }
    return values;
}

static const uint8_t *part(const struct message_view *message, enum column column, uint32_t *bytes)
{
    if (column == BODY) {
        *bytes = message->body_bytes;
        return message->body;
    }
    *bytes = host_bytes(column == BORN_HOST ? born_extra(message) : store_extra(message));
    return message->data + (column == BORN_HOST ? MESSAGE_BORN_ADDRESS : MESSAGE_STORE_ADDRESS + born_extra(message));
}

/* Create bounds for `count` values, and `bytes` for the values; NULL with an exception. */
static PyObject *new_values(Py_ssize_t count, size_t bytes, uint8_t **bounds, uint8_t **values)
{
    PyObject *first = PyBytes_FromStringAndSize(NULL, (count + 1) * 4);
    PyObject *second = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (!first || !second) {
        Py_XDECREF(first);
        Py_XDECREF(second);
        return NULL;
    }
    *bounds = (uint8_t *)PyBytes_AsString(first);
    *values = (uint8_t *)PyBytes_AsString(second);
    put_bound(*bounds, 0, 0);
    return Py_BuildValue("(NN)", first, second);
}

static PyObject *parts(const struct batch *batch, enum column column)
{
    uint8_t *bounds, *values;
    uint32_t bytes;
    size_t total = 0;
    for (Py_ssize_t i = 0; i < batch->count; i++) {
        part(&batch->messages[i], column, &bytes);
        total += bytes;
    }
    PyObject *made = new_values(batch->count, total, &bounds, &values);
    total = 0;
    for (Py_ssize_t i = 0; made && i < batch->count; i++) {
        const uint8_t *from = part(&batch->messages[i], column, &bytes);
        memcpy(values + total, from, bytes);
        total += bytes;
        put_bound(bounds, i + 1, total);
    }
    return made;
}

static uint8_t *put_hex(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    for (uint32_t i = 0; i < bytes; i++) {
        *to++ = (uint8_t)digits[from[i] >> 4];
        *to++ = (uint8_t)digits[from[i] & 15];
    }
    return to;
}

/* The ids as RocketMQ writes them: the store host and the offset, in hexadecimal. */
static PyObject *message_ids(const struct batch *batch)
{
    uint8_t *bounds, *values, *at;
    size_t digits = 2 * (host_bytes(MESSAGE_IPV6_EXTRA) + 8);
    PyObject *made = new_values(batch->count, (size_t)batch->count * digits, &bounds, &values);
    if (!made)
        return NULL;
    at = values;
    for (Py_ssize_t i = 0; i < batch->count; i++) {
        uint32_t bytes;
        const uint8_t *host = part(&batch->messages[i], STORE_HOST, &bytes);
        at = put_hex(put_hex(at, host, bytes), batch->messages[i].data + MESSAGE_OFFSET, 8);
        put_bound(bounds, i + 1, (size_t)(at - values));
    }
    return made;
}

struct pair {
    const uint8_t *name, *value;
    size_t name_bytes, value_bytes;
};

static size_t properties_bytes(const struct message_view *message)
{
    return message->properties_bytes - (has_record_crc(message) ? MESSAGE_CRC_BYTES : 0);
}

static int same_name(const struct pair *one, const struct pair *other)
{
    return one->name_bytes == other->name_bytes && memcmp(one->name, other->name, one->name_bytes) == 0;
}

/* Split the properties without the CRC; return their number.  The last one of a name counts; parts without a byte 1 do not. */
static size_t split_properties(const struct message_view *message, struct pair *pairs)
{
    size_t count = 0;
    const uint8_t *at = message->properties, *end = at + properties_bytes(message);
    while (at < end) {
        const uint8_t *stop = memchr(at, 2, (size_t)(end - at));
        stop = stop ? stop : end;
        const uint8_t *middle = memchr(at, 1, (size_t)(stop - at));
        if (middle) {
            struct pair pair = {at, middle + 1, (size_t)(middle - at), (size_t)(stop - middle - 1)};
            size_t i = 0;
            while (i < count && !same_name(&pairs[i], &pair))
                i++;
            pairs[i] = pair;
            count += i == count;
        }
        at = stop + 1;
    }
    return count;
}

struct packer {
    uint8_t *bounds, *values;
    size_t bytes;
    Py_ssize_t count;
};

static void pack(struct packer *packer, const uint8_t *from, size_t bytes)
{
    memcpy(packer->values + packer->bytes, from, bytes);
    packer->bytes += bytes;
    put_bound(packer->bounds, ++packer->count, packer->bytes);
}

/* Return the bounds of each message's properties, then the names and the values of all of them. */
static PyObject *all_properties(const struct batch *batch)
{
    size_t total = 0, most = 0;
    for (Py_ssize_t i = 0; i < batch->count; i++) {
        size_t bytes = properties_bytes(&batch->messages[i]);
        total += bytes;
        most = bytes > most ? bytes : most;
    }
    /* A property takes at least two bytes, except for the last one of a message, which may lack its end. */
    Py_ssize_t pairs_max = (Py_ssize_t)(total / 2) + batch->count;
    struct packer names = {0}, values = {0};
    PyObject *bounds = PyBytes_FromStringAndSize(NULL, (batch->count + 1) * 4);
    PyObject *first = new_values(pairs_max, total, &names.bounds, &names.values);
    PyObject *second = new_values(pairs_max, total, &values.bounds, &values.values);
    struct pair *pairs = PyMem_Malloc((most / 2 + 1) * sizeof *pairs);
    if (!bounds || !first || !second || !pairs) {
        Py_XDECREF(bounds);
        Py_XDECREF(first);
        Py_XDECREF(second);
        PyMem_Free(pairs);
        return PyErr_NoMemory();
    }
    uint8_t *bound = (uint8_t *)PyBytes_AsString(bounds);
    put_bound(bound, 0, 0);
    for (Py_ssize_t i = 0; i < batch->count; i++) {
        size_t count = split_properties(&batch->messages[i], pairs);
        for (size_t j = 0; j < count; j++) {
            pack(&names, pairs[j].name, pairs[j].name_bytes);
            pack(&values, pairs[j].value, pairs[j].value_bytes);
        }
        put_bound(bound, i + 1, (size_t)names.count);
    }
    PyMem_Free(pairs);
    return Py_BuildValue("(NNN)", bounds, first, second);
}

static PyObject *make_column(const struct batch *batch, enum column column)
{
    if (column < BODY)
        return numbers(batch, column);
    if (column == PROPERTIES)
        return all_properties(batch);
    return column == MESSAGE_ID ? message_ids(batch) : parts(batch, column);
}

static PyObject *make_columns(const struct batch *batch, unsigned int wanted)
{
    PyObject *made = PyTuple_New(COLUMNS);
    for (int column = 0; made && column < COLUMNS; column++) {
        PyObject *values = wanted >> column & 1 ? make_column(batch, (enum column)column) : Py_NewRef(Py_None);
        if (!values || PyTuple_SetItem(made, column, values) != 0) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

/* The queue of the messages; and the wanted tag, or NULL for all. */
struct queue {
    const char *topic, *tag;
    Py_ssize_t topic_bytes, tag_bytes;
    unsigned int id;
};

/* Return whether the message belongs to the queue; RocketMQ adds some messages to other queues than the one in them, too. */
static int is_of_queue(const struct message_view *message, const struct queue *queue, int64_t queue_offset)
{
    uint32_t bytes;
    if (message->queue_id == queue->id && message->queue_offset == (uint64_t)queue_offset &&
        (Py_ssize_t)message->topic_bytes == queue->topic_bytes &&
        memcmp(message->topic, queue->topic, message->topic_bytes) == 0)
        return 1;
    return find_property(message, "INNER_MULTI_DISPATCH", 20, &bytes) != NULL;
}

static int has_tag(const struct message_view *message, const struct queue *queue)
{
    uint32_t bytes;
    if (!queue->tag)
        return 1;
    const uint8_t *tag = find_property(message, "TAGS", 4, &bytes);
    return tag && (Py_ssize_t)bytes == queue->tag_bytes && memcmp(tag, queue->tag, bytes) == 0;
}

/* Parse the concatenated messages, and keep those with the tag.  Return the index of the first one that does not match its
 * unit and its queue, or -1. */
static Py_ssize_t parse_batch(struct batch *batch, const Py_buffer *data, const uint8_t *units, const Py_buffer *indexes,
                         const struct queue *queue)
{
    const uint8_t *at = data->buf, *end = at + data->len;
    Py_ssize_t count = indexes->len / 8;
    for (Py_ssize_t i = 0; i < count; i++, units += QUEUE_UNIT_BYTES) {
        struct message_view *message = &batch->messages[batch->count];
        uint32_t bytes = get_u32(units + QUEUE_UNIT_MESSAGE_BYTES);
        int64_t index;
        memcpy(&index, (const uint8_t *)indexes->buf + i * 8, sizeof index);
        if (bytes > (size_t)(end - at) ||
            parse_message(at, bytes, get_u64(units + QUEUE_UNIT_OFFSET), 1, message) != WALK_END || message->bytes != bytes ||
            !is_of_queue(message, queue, index))
            return i;
        at += bytes;
        if (has_tag(message, queue))
            batch->queue_offsets[batch->count++] = index;
    }
    return -1;
}

/* message_columns(data, units, indexes, topic, queue_id, tag, wanted): the messages that select_messages read, as columns.
 *
 * units: of the messages.  indexes: their queue offsets, int64.  tag: only messages that have it; None for all.  wanted: a
 * bit for each column.  Returns the number of messages, and a tuple with None for each unwanted column; or the index of the
 * first message that does not match its unit and its queue, as an int. */
PyObject *binlog_message_columns(PyObject *module, PyObject *args)
{
    Py_buffer data, units, indexes;
    struct queue queue;
    struct batch batch = {0};
    unsigned int wanted;
    PyObject *result = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*s#Iz#I:message_columns", &data, &units, &indexes, &queue.topic, &queue.topic_bytes,
                          &queue.id, &queue.tag, &queue.tag_bytes, &wanted))
        return NULL;
    Py_ssize_t count = indexes.len / 8;
    if (units.len < count * (Py_ssize_t)QUEUE_UNIT_BYTES || data.len > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "there must be a unit for each message, and less than 2 GiB of data");
        goto out;
    }
    batch.messages = PyMem_Malloc((size_t)(count + 1) * sizeof *batch.messages);
    batch.queue_offsets = PyMem_Malloc((size_t)(count + 1) * sizeof *batch.queue_offsets);
    if (!batch.messages || !batch.queue_offsets) {
        PyErr_NoMemory();
        goto out;
    }
    Py_ssize_t wrong = parse_batch(&batch, &data, units.buf, &indexes, &queue);
    if (wrong >= 0) {
        result = PyLong_FromSsize_t(wrong);
    } else {
        PyObject *columns = make_columns(&batch, wanted);
        result = columns ? Py_BuildValue("(nN)", batch.count, columns) : NULL;
    }
out:
    PyMem_Free(batch.messages);
    PyMem_Free(batch.queue_offsets);
    PyBuffer_Release(&data);
    PyBuffer_Release(&units);
    PyBuffer_Release(&indexes);
    return result;
}
