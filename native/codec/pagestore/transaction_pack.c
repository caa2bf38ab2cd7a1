/* Packs the log record of a page store's transaction; pack_record and pack_actions in binlog/format/pagestore/log.py are the
 * reference version. */
#include <Python.h>

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#include <string.h>

#define SALT_BYTES 8
#define MARK_BYTES 4
#define RECORD_COMMIT 2
#define ACTION_INSERT 1
#define ACTION_UPDATE 2

/* A change of a page. */
struct action {
    long kind, offset, size;
    long long page;
    const char *content;
};

static const char *content_of(PyObject *content, Py_ssize_t *bytes)
{
    if (PyBytes_Check(content)) {
        *bytes = PyBytes_Size(content);
        return PyBytes_AsString(content);
    }
    if (PyByteArray_Check(content)) {
        *bytes = PyByteArray_Size(content);
        return PyByteArray_AsString(content);
    }
    PyErr_SetString(PyExc_TypeError, "the content of a page is bytes or a bytearray");
    return NULL;
}

/* Reads an action from a tuple, and borrows its content.  Returns -1 with an exception set if it is not valid. */
static int read_action(PyObject *item, struct action *action)
{
    PyObject *content;
    Py_ssize_t bytes;

    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "lLllO", &action->kind, &action->page, &action->offset,
                                                  &action->size, &content)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "an action is a tuple");
        return -1;
    }
    if (!(action->content = content_of(content, &bytes)))
        return -1;
    if (action->kind < 0 || action->kind > UINT8_MAX || action->page < 0 || action->page > UINT32_MAX ||
        action->offset < 0 || action->size < 0 || action->offset > UINT16_MAX || action->size > UINT16_MAX ||
        action->offset + action->size > bytes) {
        PyErr_SetString(PyExc_ValueError, "an action reaches beyond the end of its page");
        return -1;
    }
    action->content += action->offset;
    if (action->kind == ACTION_INSERT || action->kind == ACTION_UPDATE)
        while (action->size > 0 && action->content[action->size - 1] == 0)
            action->size--;
    return 0;
}

static uint8_t *put_action(uint8_t *target, const struct action *action)
{
    memset(target, 0, PAGESTORE_ACTION_BYTES);
    target[PAGESTORE_ACTION_KIND] = (uint8_t)action->kind;
    put_u16(target + PAGESTORE_ACTION_OFFSET, (uint16_t)action->offset);
    put_u16(target + PAGESTORE_ACTION_LENGTH, (uint16_t)action->size);
    put_u32(target + PAGESTORE_ACTION_PAGE, (uint32_t)action->page);
    memcpy(target + PAGESTORE_ACTION_BYTES, action->content, (size_t)action->size);
    return target + PAGESTORE_ACTION_BYTES + action->size;
}

static void put_head(uint8_t *record, size_t bytes, Py_ssize_t count, uint64_t tx_id, uint64_t synced, const char *salt,
                     uint64_t offset)
{
    uint8_t seed[SALT_BYTES + 8];

    memcpy(record + PAGESTORE_RECORD_MARK, salt, MARK_BYTES);
    memset(record + MARK_BYTES, 0, PAGESTORE_RECORD_BYTES - MARK_BYTES);
    record[PAGESTORE_RECORD_KIND] = RECORD_COMMIT;
    put_u32(record + PAGESTORE_RECORD_ACTION_COUNT, (uint32_t)count);
    put_u32(record + PAGESTORE_RECORD_ACTION_BYTES, (uint32_t)(bytes - PAGESTORE_RECORD_BYTES));
    put_u64(record + PAGESTORE_RECORD_TX_ID, tx_id);
    put_u64(record + PAGESTORE_RECORD_SYNCED, synced);
    memcpy(seed, salt, SALT_BYTES);
    put_u64(seed + SALT_BYTES, offset);
    uint32_t crc = binlog_crc32c(0, seed, sizeof seed);
    crc = binlog_crc32c(crc, record, PAGESTORE_RECORD_CRC);
    crc = binlog_crc32c(crc, record + PAGESTORE_RECORD_BYTES, bytes - PAGESTORE_RECORD_BYTES);
    put_u32(record + PAGESTORE_RECORD_CRC, crc);
}

/* pack_transaction(tx_id, synced, salt, offset, actions): returns the bytes of the record for this offset of the log.
 * actions: a list of tuples, see PageAction.  Zeros at the end of a whole page are omitted.
 * Raises ValueError if an action reaches beyond the end of its page, or if the record is too long. */
PyObject *binlog_pack_transaction(PyObject *module, PyObject *args)
{
    unsigned long long tx_id, synced, offset;
    const char *salt;
    Py_ssize_t salt_bytes;
    PyObject *actions;
    struct action action;
    size_t bytes = PAGESTORE_RECORD_BYTES;

    (void)module;
    if (!PyArg_ParseTuple(args, "KKy#KO!:pack_transaction", &tx_id, &synced, &salt, &salt_bytes, &offset, &PyList_Type, &actions))
        return NULL;
    Py_ssize_t count = PyList_Size(actions);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (read_action(PyList_GetItem(actions, i), &action) != 0)
            return NULL;
        bytes += PAGESTORE_ACTION_BYTES + (size_t)action.size;
    }
    if (salt_bytes != SALT_BYTES || bytes > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a salt has 8 bytes, and a record has fewer than 4 GiB");
        return NULL;
    }
    PyObject *record = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (!record)
        return NULL;
    uint8_t *start = (uint8_t *)PyBytes_AsString(record), *end = start + PAGESTORE_RECORD_BYTES;
    for (Py_ssize_t i = 0; i < count; i++) {
        /* No Python code has run since the first pass, so the list is unchanged. */
        if (read_action(PyList_GetItem(actions, i), &action) != 0) {
            Py_DECREF(record);
            return NULL;
        }
        end = put_action(end, &action);
    }
    put_head(start, bytes, count, tx_id, synced, salt, offset);
    return record;
}
