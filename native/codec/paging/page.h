/* Pages of messages, for what writes them (page_writer.c) and reads them (page_scan.c), and for what was acknowledged of
 * them (page_acks.c). */
#ifndef BINLOG_PAGE_H
#define BINLOG_PAGE_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "big_endian.h"
#include "codec.h"

/* binlog/format/paging/page_record.py says what each is. */
#define PAGE_OPENS '{'
#define PAGE_CLOSES '}'
#define PAGE_SALT_BYTES 8
#define JBM_PAGE_CLOSE_BYTES 1

/* CRC-32C of a salt and of the offset at which a record lies: what the CRCs of the record go on from. */
static inline uint32_t page_place_crc(const uint8_t *salt, uint64_t at)
{
    uint8_t place[PAGE_SALT_BYTES + 8];

    memcpy(place, salt, PAGE_SALT_BYTES);
    put_u64(place + PAGE_SALT_BYTES, at);
    return binlog_crc32c(0, place, sizeof place);
}

/* A salt of Python's, NULL for none, which is JBoss Messaging's layout; -1 with an exception. */
static inline int page_salt(const char *salt, Py_ssize_t salt_bytes, const uint8_t **found)
{
    if (salt_bytes != 0 && salt_bytes != PAGE_SALT_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a salt has 8 bytes");
        return -1;
    }
    *found = salt_bytes ? (const uint8_t *)salt : NULL;
    return 0;
}

struct iovec;
/* All of it at an offset: 0, or an errno, and then a part of it may be there. */
int page_write_all(int fd, struct iovec *parts, int count, uint64_t at);

/* How many messages a PageWriter has appended, or was told of. */
uint64_t page_writer_count(PyObject *writer);
int page_is_writer(PyObject *object);
extern PyTypeObject *page_writer_type;

#endif
