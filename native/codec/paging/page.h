/* Pages of messages: shared by page_writer.c, page_acks.c and codec/paging/page_scan.c. */
#ifndef BINLOG_PAGE_H
#define BINLOG_PAGE_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "big_endian.h"
#include "codec.h"

/* The markers of records: see binlog/format/paging/page_record.py. */
#define PAGE_OPENS '{'
#define PAGE_CLOSES '}'
#define PAGE_SALT_BYTES 8
#define JBM_PAGE_CLOSE_BYTES 1

/* CRC-32C of a salt and of the offset of a record: the initial value of the record's CRCs. */
static inline uint32_t page_crc_seed(const uint8_t *salt, uint64_t offset)
{
    uint8_t seed[PAGE_SALT_BYTES + 8];

    memcpy(seed, salt, PAGE_SALT_BYTES);
    put_u64(seed + PAGE_SALT_BYTES, offset);
    return binlog_crc32c(0, seed, sizeof seed);
}

/* Checks a salt from Python.  Stores NULL for an empty one, which selects the layout of JBoss Messaging.  Returns -1 with
 * an exception set if the salt has a wrong size. */
static inline int page_salt(const char *salt, Py_ssize_t salt_bytes, const uint8_t **checked)
{
    if (salt_bytes != 0 && salt_bytes != PAGE_SALT_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a salt has 8 bytes");
        return -1;
    }
    *checked = salt_bytes ? (const uint8_t *)salt : NULL;
    return 0;
}

struct iovec;
/* Writes all parts at an offset.  Returns 0 or an errno; after a failure a part of the data may be in the file. */
int page_write_all(int fd, struct iovec *parts, int count, uint64_t offset);

/* The number of messages that a PageWriter has appended; takes no lock. */
uint64_t page_writer_count(PyObject *writer);
int page_is_writer(PyObject *object);
extern PyTypeObject *page_writer_type;

#endif
