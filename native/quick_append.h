/* The types by which appending one record takes no Python in the common case. */
#ifndef BINLOG_QUICK_APPEND_H
#define BINLOG_QUICK_APPEND_H

#include <Python.h>

int binlog_add_quick_types(PyObject *module);

#endif
