/* The records of one call of append_many; many.c. */
#ifndef BINLOG_MANY_H
#define BINLOG_MANY_H

#include <Python.h>

PyObject *binlog_frame_records(PyObject *module, PyObject *args);

#endif
