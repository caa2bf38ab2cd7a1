/* Tuples of two: a Ref, an Entry. */
#ifndef BINLOG_PAIRS_H
#define BINLOG_PAIRS_H

#include <Python.h>

void pairs_setup(void);
PyObject *pair(PyObject *type, PyObject *first, PyObject *second);
int pair_is_free(PyObject *made);

#endif
