/* The decision which call is made to fail. */
#include "injector.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_ROOM 4096

static struct injection_order order;
static struct injection_slot own_slot, *slot = &own_slot;
static uint8_t *kinds_counted;
static size_t kinds_room;
static char ours_under[PATH_ROOM], ours_end[64];
static volatile bool armed;
static int locked_fd = -1;

static void disarm_child(void)
{
    armed = false;
    slot = &own_slot;
    locked_fd = -1;
}

__attribute__((constructor)) static void set_up(void)
{
    pthread_atfork(NULL, NULL, disarm_child);
}

/* under, end: the prefix and the suffix of the paths that count.  shown: a slot that others see, or NULL. */
EXPORT void binlog_injector_arm(const struct injection_order *given, const char *under, const char *end,
                               struct injection_slot *shown)
{
    order = *given;
    snprintf(ours_under, sizeof ours_under, "%s", under);
    snprintf(ours_end, sizeof ours_end, "%s", end);
    slot = shown ? shown : &own_slot;
    memset(slot, 0, sizeof *slot);
    locked_fd = -1;
    armed = true;
}

/* Write the kind of each counted call to an array, by its number. */
EXPORT void binlog_injector_note(uint8_t *kinds, size_t room)
{
    kinds_counted = kinds;
    kinds_room = room;
}

EXPORT void binlog_injector_disarm(void)
{
    armed = false;
}

bool injector_armed(void)
{
    return armed;
}

static bool begins(const char *path)
{
    return strncmp(path, ours_under, strlen(ours_under)) == 0;
}

static bool ends(const char *path)
{
    size_t bytes = strlen(path), end_bytes = strlen(ours_end);
    return bytes >= end_bytes && strcmp(path + bytes - end_bytes, ours_end) == 0;
}

/* Whether the descriptor's file, removed or not, is under the path; `path` receives its path.  Preserves errno. */
static bool is_under(int fd, char path[PATH_ROOM])
{
    char link[64];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, PATH_ROOM - 1);
    errno = saved;
    if (bytes < 0)
        return false;
    path[bytes] = '\0';
    return begins(path);
}

bool is_ours(int fd)
{
    char path[PATH_ROOM];
    return armed && is_under(fd, path) && ends(path);
}

bool is_ours_at(int directory, const char *path)
{
    char folder[PATH_ROOM];
    if (!armed || !ends(path))
        return false;
    if (*path == '/')
        return begins(path) || strncmp(path, "/proc/self/fd/", 14) == 0; /* the way in which a staging area is opened
                                                                          * again */
    return directory != AT_FDCWD && is_under(directory, folder);
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

struct injection injection_begin(enum call_kind kind, bool ours)
{
    struct injection injection = {INJECT_NOTHING, 0};
    if (!armed || !ours || !(order.kinds >> kind & 1))
        return injection;
    int64_t number = (int64_t)atomic_fetch_add(&slot->calls, 1);
    if ((size_t)number < kinds_room)
        kinds_counted[number] = (uint8_t)kind;
    if (number < order.first || (order.count >= 0 && number >= order.first + order.count))
        return injection;
    atomic_fetch_add(&slot->hits, 1);
    if (order.action == INJECT_KILL_BEFORE)
        die();
    if (order.action == INJECT_STOP)
        kill(getpid(), SIGSTOP);
    while (order.action == INJECT_HANG && armed)
        usleep(1000);
    injection.action = order.action;
    injection.error = order.error;
    return injection;
}

/* After the call. */
void injection_end(struct injection injection)
{
    if (injection.action == INJECT_KILL_AFTER || injection.action == INJECT_KILL_WITHIN)
        die();
}

void show_locked(int fd, bool locked)
{
    if (!armed)
        return;
    locked_fd = locked ? fd : -1;
    atomic_store(&slot->locked, locked);
}

/* Whether this descriptor holds the lock. */
bool shows_locked(int fd)
{
    return armed && locked_fd == fd;
}

void show_blocked(bool blocked)
{
    if (armed)
        atomic_store(&slot->blocked, blocked);
}
