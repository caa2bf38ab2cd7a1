/* The record of a page store's transaction: see transaction_pack.c. */
#ifndef BINLOG_TRANSACTION_PACK_H
#define BINLOG_TRANSACTION_PACK_H

#include <Python.h>

PyObject *binlog_pack_transaction(PyObject *module, PyObject *args);

#endif
