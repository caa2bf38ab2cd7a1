/* The buffer of a CommitGroup: threads append to it under the guard, and a leader takes it whole. */
#include "commit_buffer.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_BYTES_MAX (8 << 20) /* a larger buffer is freed after it is written */

/* Makes room for more bytes; -1 with MemoryError. */
static int make_room(struct commit_buffer *self, size_t more)
{
    size_t capacity = self->used + more;

    if (capacity <= self->capacity)
        return 0;
    capacity += capacity / 2;
    uint8_t *bytes = realloc(self->bytes, capacity);
    if (!bytes) {
        PyErr_NoMemory();
        return -1;
    }
    self->bytes = bytes;
    self->capacity = capacity;
    return 0;
}

int commit_buffer_append(struct commit_buffer *self, const Py_buffer *data, int64_t offset, Py_ssize_t zeros)
{
    if (zeros < 0 || (self->used && offset != self->offset + (int64_t)self->used)) {
        PyErr_SetString(PyExc_ValueError, "the bytes do not follow those in the buffer");
        return -1;
    }
    if (make_room(self, (size_t)data->len + (size_t)zeros) != 0)
        return -1;
    if (!self->used)
        self->offset = offset;
    memcpy(self->bytes + self->used, data->buf, (size_t)data->len);
    self->used += (size_t)data->len;
    self->zeros = (size_t)zeros;
    memset(self->bytes + self->used, 0, self->zeros);
    return 0;
}

PyObject *commit_buffer_take(struct commit_buffer *self)
{
    PyObject *taken = Py_BuildValue("(Ly#)", (long long)self->offset, self->bytes ? (char *)self->bytes : "",
                                    (Py_ssize_t)(self->used + self->zeros));
    if (taken)
        self->used = self->zeros = 0;
    return taken;
}

void commit_buffer_reset(struct commit_buffer *self)
{
    self->used = self->zeros = 0;
    if (self->capacity > KEPT_BYTES_MAX)
        commit_buffer_free(self);
}

void commit_buffer_free(struct commit_buffer *self)
{
    free(self->bytes);
    *self = (struct commit_buffer){0};
}
