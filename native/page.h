/* Pages of messages, for what writes them (page_writer.c) and reads them (page_scan.c), and for what was acknowledged of
 * them (page_acks.c). */
#ifndef BINLOG_PAGE_H
#define BINLOG_PAGE_H

#include <Python.h>
#include <stdint.h>

/* binlog/format/paging/page_record.py says what each is. */
#define PAGE_OPENS '{'
#define PAGE_CLOSES '}'
#define PAGE_SALT_BYTES 8
#define JBM_PAGE_CLOSE_BYTES 1

/* CRC-32C of a salt and of the offset at which a record lies: what the CRCs of the record go on from. */
uint32_t page_place_crc(const uint8_t *salt, uint64_t at);

/* A salt of Python's, NULL for none, which is JBoss Messaging's layout; -1 with an exception. */
int page_salt(const char *salt, Py_ssize_t salt_bytes, const uint8_t **found);

struct iovec;
/* All of it at an offset: 0, or an errno, and then a part of it may be there. */
int page_write_all(int fd, struct iovec *parts, int count, uint64_t at);

/* binlog_fork_generation. */
uint32_t page_generation(void);

extern PyType_Spec page_acks_spec;

/* How many messages a PageWriter has appended, or was told of. */
uint64_t page_writer_count(PyObject *writer);
int page_is_writer(PyObject *object);

PyObject *binlog_scan_page(PyObject *module, PyObject *args);
PyObject *binlog_connect_pages(PyObject *module, PyObject *args);
int binlog_add_page_types(PyObject *module);

#endif
