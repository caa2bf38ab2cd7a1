/* The type AckWriter: the file of what was acknowledged of a page, to which each acknowledgement is appended in one call,
 * and for each message of the page a byte in memory that says whether it was.
 *
 * As with a PageWriter: nobody waits for the mutex who holds the interpreter's lock; `at` and the bytes change only once
 * the kernel has taken all of a record; after a failed write nothing is appended until Python has looked; in a forked
 * child nothing is written.
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

/* What is known of a message; binlog/paging/page.py has the same. */
enum mark { MARK_NONE, MARK_DONE, MARK_PENDING };

/* Why nothing was appended; the same. */
enum refusal { REFUSED_TWICE = -1, REFUSED_LIMIT = -2, REFUSED_FAILURE = -3 };

struct acks {
    PyObject_HEAD
    pthread_mutex_t mutex; /* for all that follows */
    int made;
    int fd;
    uint32_t generation;
    uint8_t salt[PAGE_SALT_BYTES];
    uint64_t at;    /* where the next record goes */
    uint64_t limit; /* the page has so many messages ... */
    PyObject *page; /* ... or, while it is written, as many as its PageWriter says; NULL for none */
    uint64_t room;  /* bytes of marks */
    uint8_t *marks;
    uint64_t done; /* messages that were acknowledged */
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
        PyErr_SetString(PyExc_ValueError, "an AckWriter is made once, with a salt");
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
    uint8_t *marks = realloc(self->marks, room);
    if (!marks)
        return -1;
    memset(marks + self->room, MARK_NONE, room - self->room);
    self->marks = marks;
    self->room = room;
    return 0;
}

static int append_record(struct acks *self, uint64_t first, uint64_t count, int64_t tx_id)
{
    uint8_t record[ACK_RECORD_BYTES] = {ACK_OPENS};

    put_u32(record + ACK_RECORD_FIRST, (uint32_t)first);
    put_u32(record + ACK_RECORD_MESSAGE_COUNT, (uint32_t)count);
    put_u64(record + ACK_RECORD_TX_ID, (uint64_t)tx_id);
    put_u32(record + ACK_RECORD_CRC, binlog_crc32c(page_place_crc(self->salt, self->at), record, ACK_RECORD_CRC));
    struct iovec part = {record, sizeof record};
    return page_write_all(self->fd, &part, 1, self->at);
}

/* Under the mutex: how many were acknowledged then, or why nothing was. */
static int64_t put(struct acks *self, uint64_t first, uint64_t count, int64_t tx_id)
{
    uint64_t stop = first + count;

    if (stop > self->limit && self->page)
        self->limit = page_writer_count(self->page);
    if (stop > self->limit || count == 0)
        return REFUSED_LIMIT;
    if (self->failure || self->fd < 0 || make_room(self, stop) != 0)
        return REFUSED_FAILURE;
    for (uint64_t number = first; number < stop; number++)
        if (self->marks[number] != MARK_NONE)
            return REFUSED_TWICE;
    self->failure = append_record(self, first, count, tx_id);
    if (self->failure)
        return REFUSED_FAILURE;
    self->at += ACK_RECORD_BYTES;
    memset(self->marks + first, tx_id == NO_TRANSACTION ? MARK_DONE : MARK_PENDING, count);
    if (tx_id == NO_TRANSACTION)
        self->done += count;
    return (int64_t)self->done;
}

static int parse_range(PyObject *const *args, Py_ssize_t given, Py_ssize_t wanted, uint64_t *first, uint64_t *count,
                       long long *last)
{
    if (given != wanted) {
        PyErr_SetString(PyExc_TypeError, "it takes the number of a message, a count, and one thing more");
        return -1;
    }
    long long number = PyLong_AsLongLong(args[0]), many = PyLong_AsLongLong(args[1]);
    *last = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred())
        return -1;
    if (number < 0 || number > UINT32_MAX || many < 0 || many > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "no number of a message, or no count");
        return -1;
    }
    *first = (uint64_t)number;
    *count = (uint64_t)many;
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
        done = put(self, first, count, tx_id);
        pthread_mutex_unlock(&self->mutex);
        Py_END_ALLOW_THREADS
    }
    return PyLong_FromLongLong(done);
}

/* Changes marks, and counts anew what they change: how many are acknowledged then; -1 where there is no memory. */
static int64_t set_marks(struct acks *self, uint64_t first, uint64_t count, int mark)
{
    if (make_room(self, first + count) != 0)
        return -1;
    for (uint64_t number = first; number < first + count; number++) {
        self->done -= self->marks[number] == MARK_DONE;
        self->done += mark == MARK_DONE;
        self->marks[number] = (uint8_t)mark;
    }
    return (int64_t)self->done;
}

static PyObject *acks_mark(PyObject *object, PyObject *const *args, Py_ssize_t given)
{
    struct acks *self = (struct acks *)object;
    uint64_t first, count;
    long long mark;
    int64_t done;

    if (parse_range(args, given, 3, &first, &count, &mark) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    done = set_marks(self, first, count, (int)mark);
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    return done < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(done);
}

/* marks(first, count): a byte for each of the messages. */
static PyObject *acks_marks(PyObject *object, PyObject *args)
{
    struct acks *self = (struct acks *)object;
    Py_ssize_t first, count;

    if (!PyArg_ParseTuple(args, "nn:marks", &first, &count))
        return NULL;
    if (first < 0 || count < 0) {
        PyErr_SetString(PyExc_ValueError, "no number of a message, or no count");
        return NULL;
    }
    PyObject *found = PyBytes_FromStringAndSize(NULL, count);
    if (!found)
        return NULL;
    char *bytes = PyBytes_AsString(found);
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    memset(bytes, MARK_NONE, (size_t)count);
    if ((uint64_t)first < self->room) {
        uint64_t there = self->room - (uint64_t)first;
        memcpy(bytes, self->marks + first, there < (uint64_t)count ? there : (uint64_t)count);
    }
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    return found;
}

/* use(fd, at, limit, page): from now on records go to that file, from there on; -1 for none.  page: a PageWriter or None. */
static PyObject *acks_use(PyObject *object, PyObject *args)
{
    struct acks *self = (struct acks *)object;
    int fd;
    unsigned long long at, limit;
    PyObject *page, *before;

    if (!PyArg_ParseTuple(args, "iKKO:use", &fd, &at, &limit, &page))
        return NULL;
    if (page != Py_None && !page_is_writer(page)) {
        PyErr_SetString(PyExc_TypeError, "a PageWriter or None");
        return NULL;
    }
    page = page == Py_None ? NULL : Py_NewRef(page);
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    self->fd = fd;
    self->at = at;
    self->limit = limit;
    before = self->page;
    self->page = page;
    self->failure = 0;
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* pause(): until the next `use` nothing is appended; waits for who appends.  Where the next record goes stays as it is. */
static PyObject *acks_pause(PyObject *object, PyObject *unused)
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
    unsigned long long at, done;
    int failure;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    at = self->at;
    done = self->done;
    failure = self->failure;
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(KKi)", at, done, failure);
}

static void acks_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    free(((struct acks *)object)->marks);
    Py_XDECREF(((struct acks *)object)->page);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef acks_methods[] = {
    {"append", FAST(acks_append), METH_FASTCALL,
     "append(first, count, tx_id): write that messages were acknowledged, and tell how many are then, or a refusal."},
    {"mark", FAST(acks_mark), METH_FASTCALL, "mark(first, count, mark): write nothing, and tell how many are acknowledged."},
    {"marks", acks_marks, METH_VARARGS, "marks(first, count): a byte for each."},
    {"use", acks_use, METH_VARARGS, "use(fd, at, limit, page): append to that file; the page has `limit` messages."},
    {"pause", acks_pause, METH_NOARGS, "Append nothing until `use`; waits for who appends."},
    {"state", acks_state, METH_NOARGS, "Where the next record goes, how many are acknowledged, the failure's errno."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot acks_slots[] = {
    {Py_tp_doc, "AckWriter(salt): appends acknowledgements of a page's messages to a file, and knows which there are."},
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
