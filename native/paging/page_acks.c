/* AckWriter: appends acknowledgements of a page's messages to a file.
 *
 * It also keeps one byte in memory for each message of the page: its acknowledgement state.
 *
 * Invariants, as for PageWriter
 * - No thread waits for the mutex while it holds the interpreter's lock.
 * - `offset` and the states change only after the kernel has taken a whole record.
 * - After a failed write nothing is appended until Python has handled the failure.
 * - A forked child writes nothing.
 */
#include "page.h"

#include "big_endian.h"
#include "binlog.h"
#include "layout.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/uio.h>

#define ACK_OPENS '('
#define NO_TRANSACTION (-1)

/* The acknowledgement state of a message; AckState in binlog/paging/page.py has the same values. */
enum ack_state { ACK_NONE, ACK_DONE, ACK_PENDING };

/* Why nothing was appended; Refusal in binlog/paging/page.py has the same values. */
enum refusal { REFUSED_ALREADY_ACKED = -1, REFUSED_NO_SUCH_MESSAGE = -2, REFUSED_FAILURE = -3 };

struct acks {
    PyObject_HEAD
    pthread_mutex_t mutex; /* guards the fields below */
    int made;
    int fd;
    uint32_t generation;
    uint8_t salt[PAGE_SALT_BYTES];
    uint64_t offset;        /* of the next record */
    uint64_t message_count; /* messages in the page, as far as known */
    PyObject *page;         /* the page's PageWriter, which knows the count while the page is open; or NULL */
    uint64_t room;          /* allocated bytes of `states` */
    uint8_t *states;
    uint64_t done; /* acknowledged messages */
    int failure;   /* errno of the write that failed */
};

static int acks_init(PyObject *object, PyObject *args, PyObject *named)
{
    struct acks *self = (struct acks *)object;
    const char *salt_given;
    const uint8_t *salt;
    Py_ssize_t salt_bytes;

    (void)named;
    if (!PyArg_ParseTuple(args, "y#:AckWriter", &salt_given, &salt_bytes) ||
        page_salt(salt_given, salt_bytes, &salt) != 0)
        return -1;
    if (self->made || !salt) {
        PyErr_SetString(PyExc_ValueError, "an AckWriter is initialized once, with a salt");
        return -1;
    }
    pthread_mutex_init(&self->mutex, NULL);
    self->made = 1;
    self->fd = -1;
    self->generation = binlog_fork_generation();
    memcpy(self->salt, salt, PAGE_SALT_BYTES);
    return 0;
}

static int make_room(struct acks *self, uint64_t stop)
{
    if (stop <= self->room)
        return 0;
    uint64_t room = stop + stop / 2 + 1024;
    uint8_t *states = realloc(self->states, room);
    if (!states)
        return -1;
    memset(states + self->room, ACK_NONE, room - self->room);
    self->states = states;
    self->room = room;
    return 0;
}

static int append_record(struct acks *self, uint64_t first, uint64_t count, int64_t tx_id)
{
    uint8_t record[ACK_RECORD_BYTES] = {ACK_OPENS};

    put_u32(record + ACK_RECORD_FIRST, (uint32_t)first);
    put_u32(record + ACK_RECORD_MESSAGE_COUNT, (uint32_t)count);
    put_u64(record + ACK_RECORD_TX_ID, (uint64_t)tx_id);
    put_u32(record + ACK_RECORD_CRC, binlog_crc32c(page_crc_seed(self->salt, self->offset), record, ACK_RECORD_CRC));
    struct iovec part = {record, sizeof record};
    return page_write_all(self->fd, &part, 1, self->offset);
}

/* Appends an acknowledgement; the caller holds the mutex.  Returns how many messages are acknowledged, or a refusal. */
static int64_t append_locked(struct acks *self, uint64_t first, uint64_t count, int64_t tx_id)
{
    uint64_t stop = first + count;

    if (stop > self->message_count && self->page)
        self->message_count = page_writer_count(self->page);
    if (stop > self->message_count || count == 0)
        return REFUSED_NO_SUCH_MESSAGE;
    if (self->failure || self->fd < 0 || make_room(self, stop) != 0)
        return REFUSED_FAILURE;
    for (uint64_t number = first; number < stop; number++)
        if (self->states[number] != ACK_NONE)
            return REFUSED_ALREADY_ACKED;
    self->failure = append_record(self, first, count, tx_id);
    if (self->failure)
        return REFUSED_FAILURE;
    self->offset += ACK_RECORD_BYTES;
    memset(self->states + first, tx_id == NO_TRANSACTION ? ACK_DONE : ACK_PENDING, count);
    if (tx_id == NO_TRANSACTION)
        self->done += count;
    return (int64_t)self->done;
}

static int parse_range(PyObject *const *args, Py_ssize_t given, Py_ssize_t wanted, uint64_t *first, uint64_t *count,
                       long long *last)
{
    if (given != wanted) {
        PyErr_SetString(PyExc_TypeError, "this method takes a message's number, a count, and one more argument");
        return -1;
    }
    long long number = PyLong_AsLongLong(args[0]), messages = PyLong_AsLongLong(args[1]);
    *last = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred())
        return -1;
    if (number < 0 || number > UINT32_MAX || messages < 0 || messages > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "the message number or the count is out of range");
        return -1;
    }
    *first = (uint64_t)number;
    *count = (uint64_t)messages;
    return 0;
}

static int usable(const struct acks *self)
{
    return self->made && binlog_fork_generation() == self->generation;
}

static PyObject *acks_append(PyObject *object, PyObject *const *args, Py_ssize_t given)
{
    struct acks *self = (struct acks *)object;
    uint64_t first, count;
    long long tx_id;
    int64_t done = REFUSED_FAILURE;

    if (parse_range(args, given, 3, &first, &count, &tx_id) != 0)
        return NULL;
    if (usable(self)) {
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&self->mutex);
        done = append_locked(self, first, count, tx_id);
        pthread_mutex_unlock(&self->mutex);
        Py_END_ALLOW_THREADS
    }
    return PyLong_FromLongLong(done);
}

/* Sets the states of messages.  Returns how many messages are acknowledged then, or -1 if memory runs out. */
static int64_t set_states(struct acks *self, uint64_t first, uint64_t count, int state)
{
    if (make_room(self, first + count) != 0)
        return -1;
    for (uint64_t number = first; number < first + count; number++) {
        self->done -= self->states[number] == ACK_DONE;
        self->done += state == ACK_DONE;
        self->states[number] = (uint8_t)state;
    }
    return (int64_t)self->done;
}

static PyObject *acks_set_state(PyObject *object, PyObject *const *args, Py_ssize_t given)
{
    struct acks *self = (struct acks *)object;
    uint64_t first, count;
    long long state;
    int64_t done;

    if (parse_range(args, given, 3, &first, &count, &state) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    done = set_states(self, first, count, (int)state);
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    return done < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(done);
}

/* states(first, count): one byte for each message. */
static PyObject *acks_states(PyObject *object, PyObject *args)
{
    struct acks *self = (struct acks *)object;
    Py_ssize_t first, count;

    if (!PyArg_ParseTuple(args, "nn:states", &first, &count))
        return NULL;
    if (first < 0 || count < 0) {
        PyErr_SetString(PyExc_ValueError, "the message number or the count is out of range");
        return NULL;
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, count);
    if (!result)
        return NULL;
    char *bytes = PyBytes_AsString(result);
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    memset(bytes, ACK_NONE, (size_t)count);
    if ((uint64_t)first < self->room) {
        uint64_t known = self->room - (uint64_t)first;
        memcpy(bytes, self->states + first, known < (uint64_t)count ? known : (uint64_t)count);
    }
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    return result;
}

/* attach(fd, offset, message_count, page): append to this file, starting at `offset`.  fd: -1 for no file.  page: a PageWriter,
 * or None. */
static PyObject *acks_attach(PyObject *object, PyObject *args)
{
    struct acks *self = (struct acks *)object;
    int fd;
    unsigned long long offset, message_count;
    PyObject *page, *before;

    if (!PyArg_ParseTuple(args, "iKKO:attach", &fd, &offset, &message_count, &page))
        return NULL;
    if (page != Py_None && !page_is_writer(page)) {
        PyErr_SetString(PyExc_TypeError, "attach takes a PageWriter or None");
        return NULL;
    }
    page = page == Py_None ? NULL : Py_NewRef(page);
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    self->fd = fd;
    self->offset = offset;
    self->message_count = message_count;
    before = self->page;
    self->page = page;
    self->failure = 0;
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* detach(): append nothing until the next `attach`.  Waits for running appends; the offset of the next record stays. */
static PyObject *acks_detach(PyObject *object, PyObject *unused)
{
    struct acks *self = (struct acks *)object;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    self->fd = -1;
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *acks_state(PyObject *object, PyObject *unused)
{
    struct acks *self = (struct acks *)object;
    unsigned long long offset, done;
    int failure;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    offset = self->offset;
    done = self->done;
    failure = self->failure;
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(KKi)", offset, done, failure);
}

static void acks_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    free(((struct acks *)object)->states);
    Py_XDECREF(((struct acks *)object)->page);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef acks_methods[] = {
    {"append", FAST(acks_append), METH_FASTCALL,
     "append(first, count, tx_id): append an acknowledgement; return the number of acknowledged messages, or a refusal."},
    {"set_state", FAST(acks_set_state), METH_FASTCALL,
     "set_state(first, count, state): set states in memory; return the number of acknowledged messages."},
    {"states", acks_states, METH_VARARGS, "states(first, count): return one byte for each message."},
    {"attach", acks_attach, METH_VARARGS, "attach(fd, offset, message_count, page): append to this file from now on."},
    {"detach", acks_detach, METH_NOARGS, "Append nothing until the next `attach`."},
    {"state", acks_state, METH_NOARGS, "Return the next offset, the number of acknowledged messages, and the errno of a failed write."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot acks_slots[] = {
    {Py_tp_doc, "AckWriter(salt): appends acknowledgements of a page's messages to a file."},
    {Py_tp_init, acks_init},
    {Py_tp_dealloc, acks_dealloc},
    {Py_tp_methods, acks_methods},
    {0, NULL},
};

PyType_Spec page_acks_spec = {
    .name = "binlog._calls.AckWriter",
    .basicsize = sizeof(struct acks),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = acks_slots,
};
