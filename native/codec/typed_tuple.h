/* Tuples of a given type: a Ref, an Entry, an Outcome. */
#ifndef BINLOG_TYPED_TUPLE_H
#define BINLOG_TYPED_TUPLE_H

#include <Python.h>

void typed_tuple_setup(void);
PyObject *typed_tuple(PyObject *type, PyObject **values, Py_ssize_t count);
PyObject *pair_tuple(PyObject *type, PyObject *first, PyObject *second);
int tuple_is_unshared(PyObject *made);

#endif
