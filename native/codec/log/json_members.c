/* Finds the records of a batch that may have a member of a JSON object, by their bytes, without parsing them.
 *
 * A log of events has millions of records, of which a filter wants few.  Parsing each takes microseconds; this takes some 50 ns.
 * A record that has the member is always found.  Others may be found too, so the caller parses those that are. */
#define _GNU_SOURCE
#include <Python.h>

#include "layout.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ESCAPE_BYTES = 6 }; /* of an escaped character, \u0041 */

struct text {
    const uint8_t *data;
    size_t bytes;
};

struct member {
    struct text key;
    const struct text *starts;
    Py_ssize_t start_count;
    size_t escaped_bytes_max; /* of a start, if each character of it is written as an escape */
    bool top_level;
};

static const uint8_t *skip_space(const uint8_t *at, const uint8_t *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

/* Returns the start of the value if `at`, the end of a key's quotes, is before a colon; else NULL. */
static const uint8_t *value_after(const uint8_t *at, const uint8_t *end)
{
    at = skip_space(at, end);
    return at < end && *at == ':' ? skip_space(at + 1, end) : NULL;
}

static bool has_start(const struct member *member, const uint8_t *value, const uint8_t *end)
{
    for (Py_ssize_t i = 0; i < member->start_count; i++) {
        const struct text *start = &member->starts[i];
        if (start->bytes == 0)
            return true;
        /* Most values differ in the first byte, which is found without a call. */
        if (start->bytes <= (size_t)(end - value) && *value == *start->data && !memcmp(value, start->data, start->bytes))
            return true;
    }
    return member->start_count == 0;
}

/* A brace or bracket after the first byte may open an object in the record.  In a string it opens none, but a caller that takes
 * it for one only searches further.
 *
 * O3 makes the loop a vector loop, which for these few bytes is faster than two calls of memchr. */
__attribute__((optimize("O3"))) static bool may_be_nested(const uint8_t *record, const uint8_t *at)
{
    uint8_t is_open = at == record;
    for (const uint8_t *byte = record + 1; byte < at; byte++)
        is_open |= (*byte | ('{' ^ '[')) == '{'; /* the two differ in one bit */
    return is_open;
}

/* Returns whether a character may be written as an escape, so that a key or a value is not in the bytes as it is. */
static bool has_escapes(const uint8_t *at, const uint8_t *end)
{
    while ((at = memchr(at, '\\', (size_t)(end - at)))) {
        if (end - at >= 4 && !memcmp(at, "\\u00", 4))
            return true;
        at += end - at > 1 ? 2 : 1; /* over an escaped backslash */
    }
    return false;
}

/* Returns whether a value that does not begin with any of the starts may do so once its escapes are replaced. */
static bool may_start(const struct member *member, const uint8_t *value, const uint8_t *end)
{
    size_t bytes = member->escaped_bytes_max;

    if (value == end || *value != '"')
        return false;
    return has_escapes(value, (size_t)(end - value) > bytes ? value + bytes : end);
}

/* Whether the quote at `at` is a character of a string that ends as the key does, such as "x\"key". */
static bool is_escaped(const uint8_t *record, const uint8_t *at)
{
    return at > record && at[-1] == '\\';
}

enum verdict { MAYBE, NO, SEARCH_ON };

/* Judges a record by the key at `at`. */
static enum verdict judge(const struct member *member, const uint8_t *record, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *value = value_after(at + member->key.bytes, end);
    if (!value)
        return SEARCH_ON;
    if (has_start(member, value, end))
        return MAYBE;
    if (!member->top_level || may_be_nested(record, at) || is_escaped(record, at))
        return SEARCH_ON;
    /* This is the record's own key, and a JSON object has no other one. */
    return may_start(member, value, end) ? MAYBE : NO;
}

/* place: where the key was in the record before; most events of a log have the same keys in the same order. */
static bool may_have(const struct member *member, const uint8_t *record, const uint8_t *end, size_t *place)
{
    enum verdict verdict = SEARCH_ON;
    if (*place + member->key.bytes <= (size_t)(end - record) &&
        !memcmp(record + *place, member->key.data, member->key.bytes))
        verdict = judge(member, record, record + *place, end);
    for (const uint8_t *at = record; verdict == SEARCH_ON; at++) {
        at = memmem(at, (size_t)(end - at), member->key.data, member->key.bytes);
        if (!at)
            return has_escapes(record, end);
        *place = (size_t)(at - record);
        verdict = judge(member, record, at, end);
    }
    return verdict == MAYBE;
}

/* Writes the indexes of the records that may have the member, and returns their count; -1 if an offset is out of order. */
static Py_ssize_t find(const struct member *member, const Py_buffer *data, const uint32_t *offsets, const uint32_t *among,
                       Py_ssize_t first, Py_ssize_t last, uint32_t *found)
{
    const uint8_t *bytes = data->buf;
    size_t place = 0;
    Py_ssize_t count = 0;
    for (Py_ssize_t i = first; i < last; i++) {
        uint32_t index = among ? among[i] : (uint32_t)i;
        uint64_t start = (uint64_t)offsets[index] + RECORD_BYTES, end = offsets[index + 1];
        if (start > end || end > (uint64_t)data->len)
            return -1;
        if (may_have(member, bytes + start, bytes + end, &place))
            found[count++] = index;
    }
    return count;
}

static PyObject *find_all(const struct member *member, const Py_buffer *data, const Py_buffer *offsets, const Py_buffer *among,
                          Py_ssize_t first, Py_ssize_t last)
{
    Py_ssize_t records = offsets->len / (Py_ssize_t)sizeof(uint32_t) - 1;
    const uint32_t *indexes = among->buf;
    if (indexes) {
        first = 0;
        last = among->len / (Py_ssize_t)sizeof(uint32_t);
        for (Py_ssize_t i = 0; i < last; i++)
            if (indexes[i] >= records)
                return PyErr_Format(PyExc_ValueError, "no record has the index %u", indexes[i]);
    } else if (first < 0 || first > last || last > records) {
        return PyErr_Format(PyExc_ValueError, "%zd to %zd is not within %zd records", first, last, records);
    }
    uint32_t *found = PyMem_Malloc((size_t)(last - first + 1) * sizeof *found);
    if (!found)
        return PyErr_NoMemory();
    Py_ssize_t count = find(member, data, offsets->buf, indexes, first, last, found);
    PyObject *result =
        count < 0 ? PyErr_Format(PyExc_ValueError, "the offsets are not those of records in the data")
                  : PyBytes_FromStringAndSize((const char *)found, count * (Py_ssize_t)sizeof *found);
    PyMem_Free(found);
    return result;
}

static struct text text_of(PyObject *bytes)
{
    return (struct text){(const uint8_t *)PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes)};
}

/* Returns the texts of a tuple, in new memory; NULL with an exception. */
static struct text *texts_of(PyObject *values)
{
    Py_ssize_t count = PyTuple_Size(values);
    struct text *texts = PyMem_Malloc((size_t)(count + 1) * sizeof *texts);
    if (!texts) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = PyTuple_GetItem(values, i);
        if (!PyBytes_Check(value)) {
            PyErr_SetString(PyExc_TypeError, "a value is not bytes");
            PyMem_Free(texts);
            return NULL;
        }
        texts[i] = text_of(value);
    }
    return texts;
}

/* find_json_members(data, offsets, first, last, among, key, starts, top_level): returns the indexes of the records from `first`
 * to `last`, or of those `among` (uint32; None for all), that may have a member with the key, and with a value that begins with
 * one of `starts`, or with anything if that is empty; as uint32.
 *
 * key: with its closing quote; without the opening one it is also found at the end of a key.
 * top_level: only a key of the record's own object counts, and a JSON object has each key once. */
PyObject *binlog_find_json_members(PyObject *module, PyObject *args)
{
    Py_buffer data, offsets, among;
    Py_ssize_t first, last;
    PyObject *key, *starts, *found = NULL;
    int top_level;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*nnz*SO!p:find_json_members", &data, &offsets, &first, &last, &among, &key, &PyTuple_Type,
                          &starts, &top_level))
        return NULL;
    struct text *texts = texts_of(starts);
    struct member member = {text_of(key), texts, PyTuple_Size(starts), 0, top_level};
    for (Py_ssize_t i = 0; texts && i < member.start_count; i++)
        if (texts[i].bytes * ESCAPE_BYTES > member.escaped_bytes_max)
            member.escaped_bytes_max = texts[i].bytes * ESCAPE_BYTES;
    if (texts && member.key.bytes == 0)
        PyErr_SetString(PyExc_ValueError, "an empty key");
    else if (texts && offsets.len < (Py_ssize_t)sizeof(uint32_t))
        PyErr_SetString(PyExc_ValueError, "offsets have one item at least");
    else if (texts)
        found = find_all(&member, &data, &offsets, &among, first, last);
    PyMem_Free(texts);
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&among);
    return found;
}
