/* PageWriter: appends messages to the file of a page, each in one call.
 *
 * A mutex serializes the writes, and each message starts at the end of the previous one.  So if the process dies, all
 * appended messages are whole, and no hole precedes any of them.
 *
 * Invariants
 * - No thread waits for the mutex while it holds the interpreter's lock: the holder of the mutex may be waiting for that lock.
 * - `offset` and `count` advance only after the kernel has taken all bytes of a message.  After a failed write nothing is
 *   appended until Python calls `clear_failure`.
 * - A forked child writes nothing: there the descriptor's number may belong to another file.
 */
#include "page.h"

#include "big_endian.h"
#include "binlog.h"
#include "layout.h"

#include <errno.h>
#include <pthread.h>
#include <sys/uio.h>

struct writer {
    PyObject_HEAD
    pthread_mutex_t mutex; /* guards the fields below */
    int made;
    int fd;
    uint32_t generation;
    int native; /* our layout, not that of JBoss Messaging */
    uint8_t salt[PAGE_SALT_BYTES];
    uint64_t page_id;
    uint64_t offset; /* of the next message */
    uint64_t limit;  /* maximum size of the file, unless its only message is larger */
    uint32_t count;  /* messages in the page */
    uint64_t bytes;  /* of the messages, without framing */
    int closed;
    int failure; /* errno of the write that failed */
};

static int writer_init(PyObject *object, PyObject *args, PyObject *named)
{
    struct writer *self = (struct writer *)object;
    const char *salt_given;
    const uint8_t *salt;
    Py_ssize_t salt_bytes;
    int fd;
    unsigned long long page_id, offset, limit;

    (void)named;
    if (!PyArg_ParseTuple(args, "iKy#KK:PageWriter", &fd, &page_id, &salt_given, &salt_bytes, &offset, &limit) ||
        page_salt(salt_given, salt_bytes, &salt) != 0)
        return -1;
    if (self->made || fd < 0 || page_id == 0 || page_id > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a PageWriter is initialized once, with a descriptor and a page id");
        return -1;
    }
    pthread_mutex_init(&self->mutex, NULL);
    self->made = 1;
    self->fd = fd;
    self->generation = binlog_fork_generation();
    self->native = salt != NULL;
    if (salt)
        memcpy(self->salt, salt, PAGE_SALT_BYTES);
    self->page_id = page_id;
    self->offset = offset;
    self->limit = limit;
    return 0;
}

/* Whether it was initialized, and this is the process that did so. */
static int usable(const struct writer *self)
{
    return self->made && binlog_fork_generation() == self->generation;
}

int page_write_all(int fd, struct iovec *parts, int count, uint64_t offset)
{
    while (count > 0) {
        ssize_t done = pwritev(fd, parts, count, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        offset += (uint64_t)done;
        for (; count > 0 && (size_t)done >= parts->iov_len; parts++, count--)
            done -= (ssize_t)parts->iov_len;
        if (count > 0) {
            parts->iov_base = (uint8_t *)parts->iov_base + done;
            parts->iov_len -= (size_t)done;
        }
    }
    return 0;
}

/* Appends a message; the caller holds the mutex.  Returns its number in the page, or -1 if it does not fit, or if the page is
 * closed or has failed. */
static int64_t append_locked(struct writer *self, const uint8_t *message, size_t bytes, int64_t tx_id)
{
    uint8_t head[PAGE_RECORD_BYTES] = {PAGE_OPENS}, tail[PAGE_CHECK_BYTES] = {PAGE_CLOSES};
    size_t head_bytes = self->native ? PAGE_RECORD_BYTES : JBM_PAGE_RECORD_BYTES;
    size_t tail_bytes = self->native ? PAGE_CHECK_BYTES : JBM_PAGE_CLOSE_BYTES;
    uint64_t end = self->offset + head_bytes + bytes + tail_bytes;

    if (self->closed || self->failure || (end > self->limit && self->count > 0) || self->count == UINT32_MAX)
        return -1;
    if (self->native) {
        put_u32(head + PAGE_RECORD_MESSAGE_BYTES, (uint32_t)bytes);
        put_u64(head + PAGE_RECORD_TX_ID, (uint64_t)tx_id);
        uint32_t crc = binlog_crc32c(page_crc_seed(self->salt, self->offset), head, PAGE_RECORD_CRC);
        put_u32(head + PAGE_RECORD_CRC, crc);
        put_u32(tail, binlog_crc32c(crc, message, bytes));
    } else {
        put_u32(head + JBM_PAGE_RECORD_FOLLOWING_BYTES, (uint32_t)bytes + 8);
        put_u64(head + JBM_PAGE_RECORD_TX_ID, (uint64_t)tx_id);
    }
    struct iovec parts[] = {{head, head_bytes}, {(void *)(uintptr_t)message, bytes}, {tail, tail_bytes}};
    self->failure = page_write_all(self->fd, parts, 3, self->offset);
    if (self->failure)
        return -1;
    self->offset = end;
    self->bytes += bytes;
    /* Atomic, because page_writer_count reads it without the mutex. */
    __atomic_store_n(&self->count, self->count + 1, __ATOMIC_RELEASE);
    return (int64_t)self->count - 1;
}

/* append(message, tx_id): returns the message id, which is the page id times 2**32 plus the message's number in the page.
 * Returns None, and appends nothing, if the message does not fit, the page is closed, or a write has failed. */
static PyObject *writer_append(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct writer *self = (struct writer *)object;

    if (count != 2 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "append takes a message of bytes and a transaction id");
        return NULL;
    }
    Py_ssize_t bytes = PyBytes_Size(args[0]);
    const uint8_t *message = (const uint8_t *)PyBytes_AsString(args[0]);
    long long tx_id = PyLong_AsLongLong(args[1]);
    if (tx_id == -1 && PyErr_Occurred())
        return NULL;
    if (!usable(self) || bytes > INT32_MAX - 64)
        Py_RETURN_NONE;
    int64_t number;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    number = append_locked(self, message, (size_t)bytes, tx_id);
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    if (number < 0)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(self->page_id << 32 | (uint64_t)number);
}

uint64_t page_writer_count(PyObject *writer)
{
    return __atomic_load_n(&((struct writer *)writer)->count, __ATOMIC_ACQUIRE);
}

struct state {
    uint64_t offset, bytes;
    uint32_t count;
    int closed, failure;
};

static PyObject *state_tuple(const struct state *state)
{
    return Py_BuildValue("(KIKii)", (unsigned long long)state->offset, (unsigned int)state->count,
                         (unsigned long long)state->bytes, state->closed, state->failure);
}

/* Closes the page, or clears a failure, and returns the state after that. */
static PyObject *change(PyObject *object, int close, int clear_failure)
{
    struct writer *self = (struct writer *)object;
    struct state state;

    if (!usable(self)) {
        PyErr_SetString(PyExc_ValueError, "this PageWriter belongs to another process");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    self->closed |= close;
    if (clear_failure)
        self->failure = 0;
    state = (struct state){self->offset, self->bytes, self->count, self->closed, self->failure};
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    return state_tuple(&state);
}

static PyObject *writer_state(PyObject *object, PyObject *unused)
{
    (void)unused;
    return change(object, 0, 0);
}

static PyObject *writer_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    return change(object, 1, 0);
}

static PyObject *writer_clear_failure(PyObject *object, PyObject *unused)
{
    (void)unused;
    return change(object, 0, 1);
}

static void writer_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef writer_methods[] = {
    {"append", (PyCFunction)(void (*)(void))writer_append, METH_FASTCALL,
     "append(message, tx_id): append a message; return its id, or None if nothing was appended."},
    {"state", writer_state, METH_NOARGS,
     "Return the end offset, the message count, the bytes of messages, whether it is closed, and the errno of a failed write."},
    {"close", writer_close, METH_NOARGS, "Append nothing more; wait for running appends.  Returns as `state`."},
    {"clear_failure", writer_clear_failure, METH_NOARGS, "Accept appends again after a failed write.  Returns as `state`."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, "PageWriter(fd, page_id, salt, offset, limit): appends messages to the file of a page, starting at `offset`."},
    {Py_tp_init, writer_init},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_methods, writer_methods},
    {0, NULL},
};

PyType_Spec page_writer_spec = {
    .name = "binlog._calls.PageWriter",
    .basicsize = sizeof(struct writer),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = writer_slots,
};

int page_is_writer(PyObject *object)
{
    return PyObject_TypeCheck(object, page_writer_type);
}
