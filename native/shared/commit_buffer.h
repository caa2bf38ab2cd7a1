/* The buffer of a CommitGroup; commit_buffer.c. */
#ifndef BINLOG_COMMIT_BUFFER_H
#define BINLOG_COMMIT_BUFFER_H

#include <Python.h>
#include <stdint.h>

/* Bytes to be written to a file in one call. */
struct commit_buffer {
    uint8_t *bytes;
    size_t capacity, used;
    size_t zeros;   /* written after the used bytes */
    int64_t offset; /* of the first byte in the file */
};

/* Appends bytes.  offset: of the bytes in the file.  zeros: the number of zeros to write after them, until more is appended.
 * 0, or -1 with ValueError if they do not follow the bytes in the buffer, or with MemoryError; then nothing has changed. */
int commit_buffer_append(struct commit_buffer *self, const Py_buffer *data, int64_t offset, Py_ssize_t zeros);
/* Empties the buffer; returns (offset, bytes), or NULL with MemoryError, and then nothing has changed. */
PyObject *commit_buffer_take(struct commit_buffer *self);
/* Empties a buffer whose bytes were written, and keeps its memory unless it is large. */
void commit_buffer_reset(struct commit_buffer *self);
void commit_buffer_free(struct commit_buffer *self);

#endif
