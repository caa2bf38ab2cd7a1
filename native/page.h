/* Pages of messages, for what writes them (page_writer.c) and reads them (page_scan.c). */
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

PyObject *binlog_scan_page(PyObject *module, PyObject *args);
PyObject *binlog_connect_pages(PyObject *module, PyObject *args);
int binlog_add_page_types(PyObject *module);

#endif
