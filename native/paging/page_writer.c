/* The type PageWriter: the file of a page, to which messages are appended, each in one call.
 *
 * Messages lie one behind the other: where a process dies, what was appended before is whole, and nothing of it lies
 * behind a hole.  So they are written one after the other, under a mutex, and the next one goes where the last one ended.
 *
 * Invariants
 * - Nobody waits for the mutex who holds the interpreter's lock: who has the mutex may be waiting for that.
 * - `at` and `count` move on only once all bytes of a message were taken by the kernel; after a failed write nothing is
 *   appended until Python has looked (`mend`).
 * - In a forked child nothing is written: the descriptor's number may be another file's there.
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
    pthread_mutex_t mutex; /* for all that follows */
    int made;
    int fd;
    uint32_t generation;
    int native; /* not JBoss Messaging's layout */
    uint8_t salt[PAGE_SALT_BYTES];
    uint64_t page_id;
    uint64_t at;    /* where the next message goes */
    uint64_t limit; /* the page ends here, but for a message that is larger than a page */
    uint32_t count; /* messages in it */
    uint64_t bytes; /* of them, without what is around them */
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
    unsigned long long page_id, at, limit;

    (void)named;
    if (!PyArg_ParseTuple(args, "iKy#KK:PageWriter", &fd, &page_id, &salt_given, &salt_bytes, &at, &limit) ||
        page_salt(salt_given, salt_bytes, &salt) != 0)
        return -1;
    if (self->made || fd < 0 || page_id == 0 || page_id > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a PageWriter is made once, of a file and the id of a page");
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
    self->at = at;
    self->limit = limit;
    return 0;
}

/* Whether nobody may use it but who made it, and for what it was made. */
static int usable(const struct writer *self)
{
    return self->made && binlog_fork_generation() == self->generation;
}

int page_write_all(int fd, struct iovec *parts, int count, uint64_t at)
{
    while (count > 0) {
        ssize_t done = pwritev(fd, parts, count, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        at += (uint64_t)done;
        for (; count > 0 && (size_t)done >= parts->iov_len; parts++, count--)
            done -= (ssize_t)parts->iov_len;
        if (count > 0) {
            parts->iov_base = (uint8_t *)parts->iov_base + done;
            parts->iov_len -= (size_t)done;
        }
    }
    return 0;
}

/* Appends a message, under the mutex: its number in the page; or -1 where it does not fit, or nothing may be written. */
static int64_t put(struct writer *self, const uint8_t *message, size_t bytes, int64_t tx_id)
{
    uint8_t head[PAGE_RECORD_BYTES] = {PAGE_OPENS}, tail[PAGE_CHECK_BYTES] = {PAGE_CLOSES};
    size_t head_bytes = self->native ? PAGE_RECORD_BYTES : JBM_PAGE_RECORD_BYTES;
    size_t tail_bytes = self->native ? PAGE_CHECK_BYTES : JBM_PAGE_CLOSE_BYTES;
    uint64_t end = self->at + head_bytes + bytes + tail_bytes;

    if (self->closed || self->failure || (end > self->limit && self->count > 0) || self->count == UINT32_MAX)
        return -1;
    if (self->native) {
        put_u32(head + PAGE_RECORD_MESSAGE_BYTES, (uint32_t)bytes);
        put_u64(head + PAGE_RECORD_TX_ID, (uint64_t)tx_id);
        uint32_t crc = binlog_crc32c(page_place_crc(self->salt, self->at), head, PAGE_RECORD_CRC);
        put_u32(head + PAGE_RECORD_CRC, crc);
        put_u32(tail, binlog_crc32c(crc, message, bytes));
    } else {
        put_u32(head + JBM_PAGE_RECORD_FOLLOWING_BYTES, (uint32_t)bytes + 8);
        put_u64(head + JBM_PAGE_RECORD_TX_ID, (uint64_t)tx_id);
    }
    struct iovec parts[] = {{head, head_bytes}, {(void *)(uintptr_t)message, bytes}, {tail, tail_bytes}};
    self->failure = page_write_all(self->fd, parts, 3, self->at);
    if (self->failure)
        return -1;
    self->at = end;
    self->bytes += bytes;
    /* Atomic, for who looks without the mutex. */
    __atomic_store_n(&self->count, self->count + 1, __ATOMIC_RELEASE);
    return (int64_t)self->count - 1;
}

/* append(message, tx_id): the message's place, its page's id times 2**32 and its number in that; None where it does not
 * fit, or the page is closed, or a write failed, in this call or another: then nothing was appended. */
static PyObject *writer_append(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct writer *self = (struct writer *)object;

    if (count != 2 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "append takes a message of bytes, and the id of a transaction");
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
    number = put(self, message, (size_t)bytes, tx_id);
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
    uint64_t at, bytes;
    uint32_t count;
    int closed, failure;
};

static PyObject *answer(const struct state *state)
{
    return Py_BuildValue("(KIKii)", (unsigned long long)state->at, (unsigned int)state->count,
                         (unsigned long long)state->bytes, state->closed, state->failure);
}

/* Changes what is asked for, and tells how the page is then. */
static PyObject *change(PyObject *object, int close, int mend)
{
    struct writer *self = (struct writer *)object;
    struct state state;

    if (!usable(self)) {
        PyErr_SetString(PyExc_ValueError, "this PageWriter is another process's");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    self->closed |= close;
    if (mend)
        self->failure = 0;
    state = (struct state){self->at, self->bytes, self->count, self->closed, self->failure};
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    return answer(&state);
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

static PyObject *writer_mend(PyObject *object, PyObject *unused)
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
     "append(message, tx_id): its place, or None where nothing was appended."},
    {"state", writer_state, METH_NOARGS, "Where it ends, how many messages, their bytes, whether closed, the failure's errno."},
    {"close", writer_close, METH_NOARGS, "Append nothing more; waits for who appends.  As `state`."},
    {"mend", writer_mend, METH_NOARGS, "Go on after a write that failed, of which nothing is left.  As `state`."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, "PageWriter(fd, page_id, salt, at, limit): appends messages to the file of a page, from `at` on."},
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
