/* Reading records, for read.c, wait_and_read.c and message_select.c. */
#ifndef BINLOG_READ_H
#define BINLOG_READ_H

#include <Python.h>

#include <stdint.h>

Py_ssize_t binlog_read_all(int fd, uint8_t *data, Py_ssize_t bytes, int64_t offset);
PyObject *binlog_raw_records(uint64_t offset, PyObject *data, const uint32_t *places, int64_t count, int stop);

#endif
