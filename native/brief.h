/* Calls that keep the interpreter's lock: see brief.c. */
#ifndef BINLOG_BRIEF_H
#define BINLOG_BRIEF_H

#include <Python.h>

PyObject *binlog_connect_brief(PyObject *module, PyObject *args);
PyObject *binlog_fork_generation_now(PyObject *module, PyObject *unused);
PyObject *binlog_write_brief(PyObject *module, PyObject *args);
PyObject *binlog_write_delivery(PyObject *module, PyObject *args);
PyObject *binlog_crc32c_of(PyObject *module, PyObject *args);

#endif
