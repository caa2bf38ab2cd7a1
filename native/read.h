/* What the module binlog._native_records consists of beside its type.  Python.h must come first, so it is here. */
#ifndef BINLOG_READ_H
#define BINLOG_READ_H

#include <Python.h>

#include <stdint.h>

/* read.c */
Py_ssize_t binlog_read_all(int fd, uint8_t *data, Py_ssize_t bytes, int64_t offset);
PyObject *binlog_found(uint64_t offset, PyObject *data, const uint32_t *places, int64_t count, int stop);
PyObject *binlog_read_records(PyObject *module, PyObject *args);
PyObject *binlog_part_of_records(PyObject *module, PyObject *args);

/* wake.c */
PyObject *binlog_wait_and_read(PyObject *module, PyObject *args);
PyObject *binlog_look_and_read(PyObject *module, PyObject *args);

#endif
