/* The trace: starting it, reserving room in it, filling a record. */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct trace_header *trace;

static uint64_t tick(void)
{
    return atomic_fetch_add((_Atomic uint64_t *)&trace->ticks, 1) + 1;
}

bool recording(void)
{
    return trace != NULL;
}

static void make_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST); /* a process may die in a call */
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void take_lock(void)
{
    if (pthread_mutex_lock(&trace->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&trace->lock);
}

/* Whether the lock is held until the end of the call. */
static bool is_change(uint32_t kind)
{
    return kind != TRACE_SYNC && kind != TRACE_MARK && kind != TRACE_MEMORY;
}

/* Start a trace in a new file of `room` bytes; return 0 or -errno. */
EXPORT int binlog_recorder_start(const char *path, uint64_t room)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    void *memory = ftruncate(fd, (off_t)room) == 0 ? mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                                   : MAP_FAILED;
    int failure = memory == MAP_FAILED ? -errno : 0;
    close(fd);
    if (failure != 0)
        return failure;
    struct trace_header *made = memory;
    uint64_t first = (sizeof *made + 7) & ~7ull;
    *made = (struct trace_header){.magic = TRACE_MAGIC, .room = room, .first = first, .used = first};
    make_lock(&made->lock);
    trace = made;
    return 0;
}

/* End the trace in this process; its children continue. */
EXPORT void binlog_recorder_stop(void)
{
    struct trace_header *made = trace;
    trace = NULL;
    if (made)
        munmap(made, made->room);
}

EXPORT void binlog_recorder_mark(const int64_t values[MARK_NUMBERS])
{
    struct trace_record *record = record_begin(TRACE_MARK, NULL, NULL, 0);
    if (!record)
        return;
    memcpy(record->mark, values, sizeof record->mark);
    record->end = record->start;
}

/* Reserve a record and its variable part; NULL if there is no trace, or it is full.  Preserves errno. */
struct trace_record *record_begin(enum trace_kind kind, const char *name, const char *other_name, size_t data_bytes)
{
    if (!trace)
        return NULL;
    size_t name_bytes = name ? strlen(name) : 0, other_bytes = other_name ? strlen(other_name) : 0;
    uint64_t bytes = (sizeof(struct trace_record) + name_bytes + other_bytes + data_bytes + 7) & ~7ull;
    take_lock(); /* first: a thread may die with its process while it waits, and must not have reserved anything */
    uint64_t at = trace->used;
    trace->used += bytes;
    if (at + bytes > trace->room) {
        pthread_mutex_unlock(&trace->lock);
        return NULL;
    }
    struct trace_record *record = (struct trace_record *)((char *)trace + at);
    record->bytes = (uint32_t)bytes;
    record->kind = kind;
    record->process = (uint32_t)getpid();
    record->name_bytes = (uint32_t)name_bytes;
    record->other_name_bytes = (uint32_t)other_bytes;
    record->data_bytes = (uint32_t)data_bytes;
    char *text = (char *)(record + 1);
    memcpy(text, name ? name : "", name_bytes);
    memcpy(text + name_bytes, other_name ? other_name : "", other_bytes);
    record->start = tick();
    if (!is_change(kind))
        pthread_mutex_unlock(&trace->lock);
    return record;
}

char *record_data(struct trace_record *record)
{
    return (char *)(record + 1) + record->name_bytes + record->other_name_bytes;
}

void record_end(struct trace_record *record, bool failed)
{
    if (!record)
        return;
    record->failed = failed;
    record->end = tick();
    if (is_change(record->kind))
        pthread_mutex_unlock(&trace->lock);
}

/* Return the inode of a regular file or directory, or 0: pipes and terminals are on no disk.  Preserves errno. */
uint64_t inode_of(int fd)
{
    struct stat status;
    int saved = errno;
    bool is_found = fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
    errno = saved;
    return is_found ? status.st_ino : 0;
}

/* Return the inode at a path, without following a link in its last part, or 0. */
uint64_t inode_at(int directory, const char *path)
{
    struct stat status;
    int saved = errno;
    bool is_found = fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
    errno = saved;
    return is_found ? status.st_ino : 0;
}

/* Abort at a call whose effect the harness does not model: ignoring it would prove nothing. */
void refuse(const char *what)
{
    fprintf(stderr, "recorder: %s: this is not modelled\n", what);
    abort();
}
