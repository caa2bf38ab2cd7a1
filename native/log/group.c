/* Appending as a group: whoever gets the file's lock leads, and commits what everybody has staged; the others wait.
 *
 * Who finds the lock taken stages its record in its ring.  One of the waiters, the deputy, then waits for the lock
 * itself, and so leads next, whoever held it and however that one ended; the rest sleep until their outcome is there.
 * A waiter sleeps only once it has seen, after it had staged, that somebody is deputy, and a deputy gathers only after
 * it gave that up: so each staged record is seen by some later gathering.  A deputy that finds its own record committed
 * meanwhile does not lead, for it would sync for the others alone while it could append again and go along; it wakes
 * whoever has staged.  A waiter whose time ran out tries the lock itself, for who is deputy may be dead or stopped, or wait
 * for the lock of another file of the log.
 *
 * A waiter with a time limit does the same, and takes its record back when its time is up.  If a leader has taken the record by
 * then, it waits for the outcome, as it would for a sync of its own.
 *
 * Every call but staging comes from one thread at a time of a writer, and none returns with a lock that it took.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "big_endian.h"
#include "commit.h"
#include "place.h"
#include "staging_area.h"

#define AWAIT_NS ((int64_t)20 * 1000 * 1000)
#define LATE_NS ((int64_t)5000 * 1000 * 1000) /* how long to wait for a commit that has begun when the time is up */
#define BREATH_NS ((int64_t)40 * 1000 * 1000)
#define BREATH_PERIOD_NS ((int64_t)400 * 1000 * 1000)

static int is_busy(int result)
{
    return result == -EAGAIN || result == -EACCES;
}

/* 0 where file and staging area are as a commit leaves them; BINLOG_LOOK for anything else, which Python looks at; or -errno. */
static int look_at(struct binlog_file *file, const struct binlog_area *area, uint8_t *header,
                   struct live *live)
{
    if (!place_leads(&file->place)) /* nobody would find what is written to a file without its name */
        return BINLOG_LOOK;
    int result = commit_read_header(file->fd, header);
    if (result != 0)
        return result == -ENODATA ? BINLOG_LOOK : result;
    if (area && (atomic_load(&area->shared->note.state) != BINLOG_NOTE_IDLE ||
                    atomic_load(&area->shared->failed_number) == file->number))
        return BINLOG_LOOK;
    if (!live_is_plain(file, header, live))
        return BINLOG_LOOK;
    /* Shorter than its tail, it was cut; or room was made since the descriptor was looked at. */
    if (!file->place.name || live->tail <= file->place.file_bytes)
        return 0;
    return place_is_open(&file->place, file->fd) && live->tail <= file->place.file_bytes ? 0 : BINLOG_LOOK;
}

/* Whether the descriptor was not closed behind our back.  A lock of whatever has its number now would be another's. */
static int is_ours(struct binlog_file *file)
{
    return place_is_open(&file->place, file->fd);
}

/* Waits for the file's lock, -EAGAIN once the time of `own` is up, BINLOG_LOOK if the descriptor is not ours any more.
 *
 * In a mixed log nobody of ours asks for it in the first BREATH_NS of each BREATH_PERIOD_NS: a program that polls for it, and
 * never queues, finds it free then, however many of ours are at it.  The clock is the whole kernel's (in a time namespace of
 * its own a process breathes at other times, and takes from the others' breath). */
static int lock_in_turn(struct binlog_file *file, const struct binlog_append *own)
{
    if (!is_ours(file))
        return BINLOG_LOOK;
    int64_t phase = file->queue ? area_now_ns() % BREATH_PERIOD_NS : BREATH_NS;
    struct timespec rest = {.tv_nsec = BREATH_NS - phase};
    if (phase < BREATH_NS && nanosleep(&rest, NULL) != 0)
        return -errno;
    if (!own || own->timeout_ns < 0)
        return binlog_lock(file->fd);
    return binlog_lock_within(file->fd, own->until_ns - area_now_ns());
}

static size_t framed_bytes(const struct binlog_append *own)
{
    return own->bytes + (own->framed ? 0 : 4);
}

static void frame(uint8_t *to, const struct binlog_append *own)
{
    if (!own->framed) {
        put_u32(to, (uint32_t)own->bytes);
        to += 4;
    }
    memcpy(to, own->data, own->bytes);
}

/* Commits the group, and sees to what its failing means for everybody. */
static int commit(struct binlog_file *file, struct binlog_area *area, uint8_t *header, struct live *live,
                  const struct group *group, int *step)
{
    struct live before = *live;
    int result = commit_group(file, header, live, group, step);
    file->step = *step;
    if (result == 0 || !commit_poisons(result, *step))
        return result;
    /* But for the last sync of the strict order, what failed was not published, though `live` has it. */
    commit_write_poison(file, header, *step == BINLOG_STEP_PUBLISH_SYNC ? live : &before, -result);
    if (area)
        binlog_area_fail(area, file->number, -result);
    return result;
}

/* Commits what is staged and the caller's record behind it, as far as that fits in the buffer. */
static int commit_staged(struct binlog_file *file, struct binlog_area *area, uint8_t *header, struct live *live,
                         struct binlog_append *own, int sync, struct gathered *gathered)
{
    int step = 0, along = own && framed_bytes(own) <= BINLOG_COPY_BYTES_MAX;
    uint64_t start = live->tail;
    struct group group = {.data = file->buffer, .sync = sync};

    *gathered = (struct gathered){0};
    if (area) {
        if (!own || own->mode == BINLOG_SYNC)
            area_let_stage(area, own != NULL);
        area_gather(area, file, own != NULL, gathered);
    }
    if (gathered->bytes > 0) {
        group.known_bytes = gathered->bytes;
        group.known_crc = binlog_crc32c(0, file->buffer, gathered->bytes);
        area_place(area, start, group.known_crc, gathered->bytes);
        group.note = &area->shared->note;
    }
    group.bytes = gathered->bytes;
    group.units = gathered->units;
    group.sync |= gathered->sync;
    if (along) {
        if (group.bytes == 0 && own->framed)
            group.data = own->data; /* nobody else's bytes: it need not be copied */
        else
            frame(file->buffer + group.bytes, own);
        group.bytes += framed_bytes(own);
        group.units += own->units;
        group.sync |= own->mode == BINLOG_SYNC;
    }
    if (area)
        area_remember(area, group.sync);
    int result = commit(file, area, header, live, &group, &step);
    /* Where the slot is in the file and could not be published, recovery rolls it forward, and then settles the note. */
    int pending = result != 0 && step == BINLOG_STEP_PUBLISH && !commit_poisons(result, step);
    if (area && !pending)
        area_settle(area, result, step);
    if (along) {
        own->number = file->number;
        own->offset = start + gathered->bytes;
        own->outcome = result;
        own->step = step;
    }
    return result;
}

/* A caller's framed records too large to be copied are written from where they lie. */
static int commit_alone(struct binlog_file *file, struct binlog_area *area, uint8_t *header, struct live *live,
                        struct binlog_append *own)
{
    struct group group = {.data = own->data, .bytes = own->bytes, .units = own->units, .sync = own->mode == BINLOG_SYNC};
    own->number = file->number;
    own->offset = live->tail;
    own->outcome = own->framed ? commit(file, area, header, live, &group, &own->step) : -EINVAL;
    return own->outcome;
}

/* One turn under the lock.  0, BINLOG_LOOK with nothing done, or -errno, with nothing done where `file->step` is 0.
 * `rung`: the bell was rung. */
static int lead_locked(struct binlog_file *file, struct binlog_area *area, struct binlog_append *own, int flags,
                       int *rung)
{
    _Alignas(LOG_HEADER_BYTES) uint8_t header[LOG_HEADER_BYTES]; /* aligned, so that it does not cross a page */
    struct live live;
    struct gathered gathered;
    int result;

    file->step = 0;
    if ((result = look_at(file, area, header, &live)) != 0)
        return result;
    if (live.flags & FLAG_MIXED) /* somebody of ours saw another program here: never barge again */
        file->queue = 1;
    uint32_t bell = live.doorbell;
    do
        result = commit_staged(file, area, header, &live, own, flags & BINLOG_CONFIRM, &gathered);
    while (result == 0 && gathered.more && (flags & BINLOG_DRAIN));
    if (result == 0 && own && framed_bytes(own) > BINLOG_COPY_BYTES_MAX)
        result = commit_alone(file, area, header, &live, own);
    *rung = live.doorbell != bell;
    return result;
}

/* One turn with the lock held, which is given back. */
static int lead(struct binlog_file *file, struct binlog_area *area, struct binlog_append *own, int flags)
{
    int rung = 0;
    if (area)
        atomic_store_explicit(&area->shared->led, 1, memory_order_relaxed);
    int result = lead_locked(file, area, own, flags, &rung);
    if (area)
        atomic_store_explicit(&area->shared->led, 0, memory_order_relaxed);
    binlog_unlock(file->fd);
    if (area)
        area_wake(area);
    if (rung && file->bell)
        binlog_bell_wake(file->bell);
    return result;
}

/* Gives the lock back without having led.  Whoever relied on a deputy looks for itself. */
static void pass_on(const struct binlog_file *file, struct binlog_area *area)
{
    binlog_unlock(file->fd);
    area_wake_staged(area);
}

/* Its time runs from the first call, though a signal has it make others. */
static void start_waiting(struct binlog_append *own)
{
    if (own->timeout_ns < 0 || own->until_ns != 0)
        return;
    own->late = 0;
    own->until_ns = area_now_ns() + own->timeout_ns;
}

/* Stages the request; its ticket, for binlog_settle or binlog_abandon.  -EAGAIN where the ring is full, -EMSGSIZE for
 * what no ring takes. */
int64_t binlog_stage(struct binlog_area *area, struct binlog_append *own, int awaited)
{
    start_waiting(own);
    return own->ticket = area_stage(area, own, awaited);
}

/* Waits for the lock as the deputy: 0 with the lock, -EAGAIN where somebody else is deputy, or -errno. */
static int lock_as_deputy(struct binlog_file *file, struct binlog_area *area,
                          const struct binlog_append *own)
{
    int result = binlog_byte_lock(area->fd, BINLOG_LOCK_DEPUTY);
    if (result != 0)
        return is_busy(result) ? -EAGAIN : result;
    atomic_store(&area->shared->deputised, 1);
    result = lock_in_turn(file, own);
    /* Before gathering: who still sees this set has staged what will be gathered. */
    atomic_store(&area->shared->deputised, 0);
    binlog_byte_unlock(area->fd, BINLOG_LOCK_DEPUTY);
    if (result != 0) /* such as a signal, or its time is up: whoever relied on a deputy looks for itself */
        area_wake_staged(area);
    return result;
}

/* For a waiter that nobody woke: whoever is deputy may be stopped, or wait for another file's lock.  As lock_as_deputy. */
static int lock_in_doubt(struct binlog_file *file, struct binlog_area *area,
                         const struct binlog_append *own)
{
    int result = lock_as_deputy(file, area, own);
    if (result == -EAGAIN && !file->queue)
        result = is_ours(file) ? binlog_try_lock(file->fd) : BINLOG_LOOK;
    else if (result == -EAGAIN)
        result = lock_in_turn(file, own);
    return is_busy(result) ? -EAGAIN : result;
}

/* 0 while it may wait; -EBUSY with the record taken back; -ETIMEDOUT where a leader has taken it, and does not end. */
static int give_up_in_time(struct binlog_area *area, struct binlog_append *own)
{
    if (area_now_ns() < own->until_ns)
        return 0;
    int withdrawn = area_withdraw(area, own);
    if (!withdrawn && !own->late) {
        own->late = 1;
        own->until_ns = area_now_ns() + LATE_NS;
        return 0;
    }
    binlog_abandon(area, own);
    return withdrawn ? -EBUSY : -ETIMEDOUT;
}

/* Sleeps until there may be something to do.  0; -EINTR; or as give_up_in_time.  doubted: nobody woke it. */
static int sleep_in_ring(struct binlog_area *area, struct binlog_append *own, uint32_t turn, int *doubted)
{
    int64_t sleep_ns = AWAIT_NS;
    if (own->timeout_ns >= 0) {
        int result = give_up_in_time(area, own);
        int64_t left_ns = own->until_ns - area_now_ns();
        if (result != 0)
            return result;
        if (left_ns < sleep_ns)
            sleep_ns = left_ns > 0 ? left_ns : 0;
    }
    int result = area_await(area, turn, sleep_ns);
    *doubted = result == -ETIMEDOUT;
    return *doubted ? 0 : result;
}

/* Waits until what was staged has its outcome, and leads where that is needed.  0 or -errno as the outcome is; -EBUSY where
 * its time is up and nothing was appended; BINLOG_LOOK or -EINTR with the ticket still good. */
int binlog_settle(struct binlog_file *file, struct binlog_area *area, struct binlog_append *own)
{
    int doubted = 0; /* waiting was in vain */
    own->step = 0;
    for (;;) {
        /* Read before anything is looked at: whoever changes what we see here moves it after. */
        uint32_t turn = area_turn(area);
        if (binlog_outcome(area, own))
            return own->outcome;
        atomic_thread_fence(memory_order_seq_cst); /* staged, for all to see, before asking whether there is a deputy */
        int result = -EAGAIN;
        if (doubted)
            result = lock_in_doubt(file, area, own);
        else if (!atomic_load(&area->shared->deputised))
            result = lock_as_deputy(file, area, own);
        if (result == -EAGAIN) {
            if ((result = sleep_in_ring(area, own, turn, &doubted)) != 0)
                return result;
            continue;
        }
        if (result != 0)
            return result;
        if (binlog_outcome(area, own)) {
            pass_on(file, area);
            return own->outcome;
        }
        /* The failure of a commit is in the outcomes of those whom it concerns. */
        result = lead(file, area, NULL, 0);
        if (result != 0 && file->step == 0)
            return result;
    }
}

/* Appends, alone or with others.  0 with the place in `own`; BINLOG_LOOK or -EINTR with nothing done, or, where
 * the ticket is not negative, with the record staged; -EBUSY where its time is up and nothing was appended; else -errno,
 * and `own->step` says where. */
int binlog_append(struct binlog_file *file, struct binlog_area *area, struct binlog_append *own)
{
    own->ticket = -1;
    own->outcome = 0;
    own->step = 0;
    if (!is_ours(file))
        return BINLOG_LOOK;
    int can_stage = own->timeout_ns != 0 && area && area->ring >= 0;
    int taken = file->queue || (can_stage && atomic_load_explicit(&area->shared->led, memory_order_relaxed));
    int result = taken ? -EAGAIN : binlog_try_lock(file->fd);
    if (is_busy(result)) {
        if (can_stage && binlog_stage(area, own, 1) >= 0)
            return binlog_settle(file, area, own);
        own->ticket = -1;
        start_waiting(own);
        result = lock_in_turn(file, own);
        if (is_busy(result))
            return -EBUSY;
    }
    return result != 0 ? result : lead(file, area, own, 0);
}

/* The same for who holds the lock, and keeps it; what is staged goes along.  Wake with binlog_area_wake. */
int binlog_append_locked(struct binlog_file *file, struct binlog_area *area, struct binlog_append *own)
{
    int rung = 0;
    own->step = 0;
    if (own->ticket < 0)
        return lead_locked(file, area, own, 0, &rung);
    while (!binlog_outcome(area, own)) {
        int result = lead_locked(file, area, NULL, 0, &rung);
        if (result != 0 && file->step == 0)
            return result;
    }
    return own->outcome;
}

/* The same as binlog_append for one record, unframed; what it gives is in `own->answer`. */
void binlog_append_record(struct binlog_file *file, struct binlog_area *area, struct binlog_append *own,
                          const uint8_t *data, size_t bytes, int mode)
{
    own->data = data;
    own->bytes = bytes;
    own->units = 1;
    own->framed = 0;
    own->mode = mode;
    own->until_ns = 0;
    own->answer = binlog_append(file, area, own);
}

/* Stages one record that nobody waits for. */
int binlog_stage_record(struct binlog_area *area, const uint8_t *data, size_t bytes)
{
    struct binlog_append own = {.data = data, .bytes = bytes, .units = 1, .mode = BINLOG_STAGE};
    if (area->ring < 0 || area->generation != binlog_fork_generation())
        return -EAGAIN;
    int64_t ticket = area_stage(area, &own, 0);
    return ticket < 0 ? (int)ticket : 0;
}

/* Commits whatever is staged, and with BINLOG_CONFIRM everything in the file. */
int binlog_drain(struct binlog_file *file, struct binlog_area *area, int flags)
{
    file->step = 0;
    int result = lock_in_turn(file, NULL);
    return result != 0 ? result : lead(file, area, NULL, flags | BINLOG_DRAIN);
}

/* The same, for who holds the lock already. */
int binlog_drain_locked(struct binlog_file *file, struct binlog_area *area, int flags)
{
    int rung = 0;
    return lead_locked(file, area, NULL, flags | BINLOG_DRAIN, &rung);
}

/* Commits so many bytes that the caller, who holds the lock, has written behind the tail, where all is confirmed, and with
 * them takes back what it has said in the header.  0, BINLOG_LOOK with nothing done, or -errno with the step. */
int binlog_commit_written(struct binlog_file *file, struct binlog_area *area, uint64_t bytes, uint32_t crc,
                          uint32_t units)
{
    _Alignas(LOG_HEADER_BYTES) uint8_t header[LOG_HEADER_BYTES];
    struct group group = {.bytes = bytes, .known_bytes = bytes, .known_crc = crc, .units = units, .sync = 1, .written = 1};
    struct live live;
    int step = 0;

    file->step = 0;
    file->once = 1;
    int result = look_at(file, area, header, &live);
    file->once = 0;
    if (result != 0)
        return result;
    if (live.confirmed_end != live.tail)
        return BINLOG_LOOK;
    return commit(file, area, header, &live, &group, &step);
}

int binlog_file_init(struct binlog_file *file)
{
    file->index.fd = -1;
    file->buffer = malloc(BINLOG_GROUP_BYTES_MAX + BINLOG_COPY_BYTES_MAX);
    return file->buffer ? 0 : -ENOMEM;
}

void binlog_file_free(struct binlog_file *file)
{
    free(file->buffer);
    file->buffer = NULL;
}
