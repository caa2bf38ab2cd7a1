/* Messages of a commit log; message.c. */
#ifndef BINLOG_MESSAGE_H
#define BINLOG_MESSAGE_H

#include <Python.h>

PyObject *binlog_pack_messages(PyObject *module, PyObject *args);
PyObject *binlog_stamp_messages(PyObject *module, PyObject *args);

#endif
