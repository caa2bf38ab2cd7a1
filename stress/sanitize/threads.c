/*
 * Threads instead of processes, for the thread sanitizer, which sees only what threads share.
 *
 * Each opens the log file for itself, with locks and a ring of its own in the one staging area, which all of them map
 * at one address.  The sanitizer is informed of the order that file locks establish when they are taken and released.
 *
 *     threads LOG-FILE SEGMENT SEED THREADS APPENDS
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sanitizer/tsan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "big_endian.h"
#include "layout.h"
#include "staging_area.h"

static struct shared *one_mapping;
static const char *log_path, *area_path;
static uint32_t seed;
static int appends;

/* ---- the locks, which the linker substitutes for lock.c's (--wrap) ---- */

static char file_order, byte_order[BINLOG_LOCK_RING_FIRST + RING_COUNT];

int __real_binlog_lock(int fd);
int __real_binlog_try_lock(int fd);
int __real_binlog_unlock(int fd);
int __real_binlog_byte_lock(int fd, int64_t byte);
int __real_binlog_byte_lock_wait(int fd, int64_t byte);
int __real_binlog_byte_unlock(int fd, int64_t byte);

static int taken(int result, char *order)
{
    if (result == 0)
        __tsan_acquire(order);
    return result;
}

int __wrap_binlog_lock(int fd)
{
    return taken(__real_binlog_lock(fd), &file_order);
}

int __wrap_binlog_try_lock(int fd)
{
    return taken(__real_binlog_try_lock(fd), &file_order);
}

int __wrap_binlog_unlock(int fd)
{
    __tsan_release(&file_order);
    return __real_binlog_unlock(fd);
}

int __wrap_binlog_byte_lock(int fd, int64_t byte)
{
    return taken(__real_binlog_byte_lock(fd, byte), &byte_order[byte]);
}

int __wrap_binlog_byte_lock_wait(int fd, int64_t byte)
{
    return taken(__real_binlog_byte_lock_wait(fd, byte), &byte_order[byte]);
}

int __wrap_binlog_byte_unlock(int fd, int64_t byte)
{
    __tsan_release(&byte_order[byte]);
    return __real_binlog_byte_unlock(fd, byte);
}

/* ---- a writer ---- */

static void stop(const char *what, int result)
{
    fprintf(stderr, "threads: %s: %d (%s)\n", what, result, strerror(result < 0 ? -result : 0));
    exit(2);
}

static int opened(const char *path)
{
    int fd = binlog_fd_open(AT_FDCWD, path, O_RDWR | O_CLOEXEC, NULL);
    if (fd < 0)
        stop(path, fd);
    return fd;
}

/* Fill it in as Python does after recovery of the file. */
static void begin(struct binlog_file *file)
{
    uint8_t header[LOG_HEADER_BYTES];
    memset(file, 0, sizeof *file);
    file->fd = opened(log_path);
    if (pread(file->fd, header, sizeof header, 0) != (ssize_t)sizeof header)
        stop("the header", -errno);
    file->number = get_u32(header + LOG_HEADER_NUMBER);
    file->seed = seed;
    file->epoch = get_u32(header + LOG_HEADER_EPOCH);
    file->counter = get_u64(header + LOG_HEADER_CONFIRMED_COUNTER);
    file->prepare_bytes = 64 << 20;
    memcpy(file->identity, header + LOG_HEADER_MAGIC, sizeof file->identity);
    memcpy(file->boot_id, header + LOG_HEADER_BOOT_ID, sizeof file->boot_id);
    file->bell = binlog_bell_map(file->fd, LOG_HEADER_DOORBELL);
    if (!file->bell || binlog_file_init(file) != 0)
        stop("no memory", -ENOMEM);
}

static struct binlog_area *joined(void)
{
    int result, fd = opened(area_path);
    struct binlog_area *area = binlog_area_map(fd, &result);
    if (!area)
        stop("mapping the area", result);
    if (!__sync_bool_compare_and_swap(&one_mapping, NULL, area->shared)) {
        munmap(area->shared, (size_t)binlog_area_bytes());
        area->shared = __atomic_load_n(&one_mapping, __ATOMIC_ACQUIRE);
    }
    while ((result = binlog_byte_lock_wait(fd, BINLOG_LOCK_INIT)) == -EINTR)
        ;
    if (result != 0 || (result = binlog_area_claim(area)) != 0)
        stop("claiming a ring", result);
    binlog_byte_unlock(fd, BINLOG_LOCK_INIT);
    return area;
}

static void append(struct binlog_file *file, struct binlog_area *area, const char *record, int mode)
{
    struct binlog_append request = {.data = (const uint8_t *)record, .bytes = strlen(record), .record_count = 1, .timeout_ns = -1,
                                .mode = mode, .ticket = -1};
    if (mode == BINLOG_STAGE && binlog_stage_record(area, request.data, request.bytes) == 0)
        return;
    int result = binlog_append(file, area, &request);
    while (result == -EINTR || result == BINLOG_NEEDS_SLOW_PATH) {
        if (result == BINLOG_NEEDS_SLOW_PATH && request.ticket < 0)
            stop("a file that should have been plain", result);
        result = binlog_await_outcome(file, area, &request);
    }
    if (result != 0)
        stop("appending", result);
}

#ifdef SEEDED_RACE
static long unordered; /* a race that the sanitizer must report */
#else
static _Atomic long unordered;
#endif

static void *writer(void *argument)
{
    struct binlog_file file;
    struct binlog_area *area = joined();
    char record[100];

    begin(&file);
    for (int i = 0; i < appends; i++) {
        snprintf(record, sizeof record, "%d:%d", *(int *)argument, i);
        append(&file, area, record, BINLOG_SYNC + i % 3);
        unordered++;
    }
    int result = binlog_drain(&file, area, BINLOG_CONFIRM);
    if (result != 0)
        stop("draining", result);
    binlog_file_free(&file);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 6)
        return 2;
    log_path = arguments[1];
    area_path = arguments[2];
    seed = (uint32_t)strtoul(arguments[3], NULL, 10);
    int threads = atoi(arguments[4]), numbers[RING_COUNT];
    appends = atoi(arguments[5]);
    pthread_t ids[RING_COUNT];

    if (threads < 1 || threads > RING_COUNT - 1 || binlog_fork_setup() != 0)
        return 2;
    for (int i = 0; i < threads; i++) {
        numbers[i] = i;
        if (pthread_create(&ids[i], NULL, writer, &numbers[i]) != 0)
            stop("a thread", -errno);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return 0;
}
