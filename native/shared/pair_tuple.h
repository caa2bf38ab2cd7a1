/* Tuples of two: a Ref, an Entry. */
#ifndef BINLOG_PAIR_TUPLE_H
#define BINLOG_PAIR_TUPLE_H

#include <Python.h>

void pair_tuple_setup(void);
PyObject *pair_tuple(PyObject *type, PyObject *first, PyObject *second);
int pair_tuple_is_unshared(PyObject *made);

#endif
