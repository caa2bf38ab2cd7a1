/* Many records in one run, as they lie in the file; many.c. */
#ifndef BINLOG_MANY_H
#define BINLOG_MANY_H

#include <Python.h>

PyObject *binlog_frame_records(PyObject *module, PyObject *args);
PyObject *binlog_spread_records(PyObject *module, PyObject *args);
PyObject *binlog_gather_records(PyObject *module, PyObject *args);

#endif
