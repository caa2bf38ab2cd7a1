#ifndef BINLOG_COMMIT_GROUP_H
#define BINLOG_COMMIT_GROUP_H

#include <Python.h>

/* Adds Guard, CommitGroup and Turn to the module; 0, or -1 with an exception. */
int binlog_add_group_types(PyObject *module);

#endif
