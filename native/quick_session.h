/* What of a Session is known to the compiled code; see quick_session.c. */
#ifndef BINLOG_QUICK_SESSION_H
#define BINLOG_QUICK_SESSION_H

#include <Python.h>

#include "binlog.h"

struct session {
    PyObject_HEAD
    PyObject *acquire; /* methods of the mutex */
    PyObject *release;
    PyObject *inside;    /* a list: while there is something in it, appends are Python's */
    PyObject *file_kept; /* what keeps `file` and `own` alive */
    struct binlog_file *file; /* NULL where appends are Python's */
    struct binlog_append *own;
    PyObject *segment_kept;
    struct binlog_segment *segment;
    long long limit; /* what ends here or beyond has brought the file to a limit */
    uint32_t generation;
    char busy;       /* a thread is in a call, Python's or ours */
    char background; /* somebody sees to records that no caller waits for */
};

int session_add_type(PyObject *module);
int session_made(PyObject *object);
int session_enter(struct session *session);
void session_leave(struct session *session);

#endif
