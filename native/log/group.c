/* Group commit: the process that gets the file's lock leads and commits everything staged; the others wait.
 *
 * A writer that finds the lock taken stages its record in its ring.  One of the waiters, the deputy, waits for the lock itself,
 * and so leads next, however the current leader ends.  The other waiters sleep until their record has its outcome.  A waiter
 * sleeps only after it has staged its record and then seen that there is a deputy.  A deputy gathers only after it gave up that
 * role.  So a later gathering sees each staged record.  If the deputy finds its own record committed, it does not lead: it would
 * sync for others only, while its next append could join the group.  It wakes the writers that have staged something.  A waiter
 * whose sleep timed out tries the lock itself, because the deputy may be dead, stopped, or blocked on the lock of another file of
 * the log.
 *
 * A waiter with a time limit does the same, and withdraws its record when the time is up.  If a leader has taken the record by
 * then, the waiter waits for the outcome, as it would for a sync of its own.
 *
 * binlog_await_staged waits in the same way for all records of the writer's ring, on behalf of callers that wait elsewhere.
 *
 * A writer makes every call but staging from one thread at a time, and no call returns with a lock that it took.
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
#define OUTCOME_WAIT_NS ((int64_t)5000 * 1000 * 1000) /* the time to wait for a commit in progress after the deadline */
#define PAUSE_NS ((int64_t)40 * 1000 * 1000)
#define PAUSE_PERIOD_NS ((int64_t)400 * 1000 * 1000)

static int is_busy(int result)
{
    return result == -EAGAIN || result == -EACCES;
}

/* Checks the file and the staging area: 0 if both are as a commit leaves them; BINLOG_NEEDS_SLOW_PATH if Python must recover
 * them; or -errno. */
static int check_state(struct binlog_file *file, const struct binlog_area *area, uint8_t *header,
                       struct live *live)
{
    if (!place_leads(&file->place)) /* no process would find bytes written to a file without its name */
        return BINLOG_NEEDS_SLOW_PATH;
    int result = commit_read_header(file->fd, header);
    if (result != 0)
        return result == -ENODATA ? BINLOG_NEEDS_SLOW_PATH : result;
    if (area && (atomic_load(&area->shared->note.state) != BINLOG_NOTE_IDLE ||
                    atomic_load(&area->shared->failed_number) == file->number))
        return BINLOG_NEEDS_SLOW_PATH;
    if (!live_is_plain(file, header, live))
        return BINLOG_NEEDS_SLOW_PATH;
    /* Shorter than its tail, the file was cut; or another process has allocated more since the last check of the descriptor. */
    if (!file->place.name || live->tail <= file->place.file_bytes)
        return 0;
    return place_is_open(&file->place, file->fd) && live->tail <= file->place.file_bytes ? 0 : BINLOG_NEEDS_SLOW_PATH;
}

/* Whether the descriptor is still open on this file.  If a program closed it, its number may be another file's, and so would be
 * the lock. */
static int descriptor_is_ours(struct binlog_file *file)
{
    return place_is_open(&file->place, file->fd);
}

/* Waits for the file's lock: 0, -EAGAIN at the request's deadline, BINLOG_NEEDS_SLOW_PATH if the descriptor was closed, or
 * -errno.
 *
 * If another program appends to the log too, no binlog writer asks for the lock in the first PAUSE_NS of each PAUSE_PERIOD_NS. So
 * a program that polls for the lock, and never queues, finds it free then, however many binlog writers there are.  The clock is
 * the whole kernel's.  (In a time namespace of its own, a process pauses at other times, and takes from the others' pause.)
 */
static int lock_queued(struct binlog_file *file, const struct binlog_append *request)
{
    if (!descriptor_is_ours(file))
        return BINLOG_NEEDS_SLOW_PATH;
    int64_t phase = file->must_queue ? area_now_ns() % PAUSE_PERIOD_NS : PAUSE_NS;
    struct timespec rest = {.tv_nsec = PAUSE_NS - phase};
    if (phase < PAUSE_NS && nanosleep(&rest, NULL) != 0)
        return -errno;
    if (!request || request->timeout_ns < 0)
        return binlog_lock(file->fd);
    return binlog_lock_within(file->fd, request->deadline_ns - area_now_ns());
}

static size_t framed_bytes(const struct binlog_append *request)
{
    return request->bytes + (request->framed ? 0 : 4);
}

static void frame(uint8_t *to, const struct binlog_append *request)
{
    if (!request->framed) {
        put_u32(to, (uint32_t)request->bytes);
        to += 4;
    }
    memcpy(to, request->data, request->bytes);
}

static void count_wait(const struct binlog_file *file, int64_t begun_ns)
{
    struct binlog_counters *counters = file->counters;
    if (!counters)
        return;
    uint64_t wait_ns = (uint64_t)(area_now_ns() - begun_ns);
    counters->waits++;
    counters->wait_ns += wait_ns;
    if (wait_ns > counters->wait_ns_max)
        counters->wait_ns_max = wait_ns;
}

/* Commits the group, and tells every process if the commit poisons the file. */
static int commit(struct binlog_file *file, struct binlog_area *area, uint8_t *header, struct live *live,
                  const struct group *group, int *step)
{
    struct live before = *live;
    int result = commit_group(file, header, live, group, step);
    file->step = *step;
    if (result == 0 || !commit_poisons(result, *step))
        return result;
    /* Except at the last sync of the strict order, the failed commit is not published, although `live` has it. */
    commit_write_poison(file, header, *step == BINLOG_STEP_PUBLISH_SYNC ? live : &before, -result);
    if (area)
        binlog_area_fail(area, file->number, -result);
    return result;
}

/* Commits everything staged, and after it the caller's record if that fits in the buffer. */
static int commit_staged(struct binlog_file *file, struct binlog_area *area, uint8_t *header, struct live *live,
                         struct binlog_append *request, int sync, struct gathered *gathered)
{
    int step = 0, is_included = request && framed_bytes(request) <= BINLOG_COPY_BYTES_MAX;
    uint64_t start = live->tail;
    struct group group = {.data = file->buffer, .sync = sync};

    *gathered = (struct gathered){0};
    if (area) {
        if (!request || request->mode == BINLOG_SYNC)
            area_let_stage(area, request != NULL);
        area_gather(area, file, request != NULL, gathered);
    }
    if (gathered->bytes > 0) {
        group.known_bytes = gathered->bytes;
        group.known_crc = binlog_crc32c(0, file->buffer, gathered->bytes);
        area_place(area, start, group.known_crc, gathered->bytes);
        group.note = &area->shared->note;
    }
    group.bytes = gathered->bytes;
    group.record_count = gathered->record_count;
    group.sync |= gathered->sync;
    if (is_included) {
        if (group.bytes == 0 && request->framed)
            group.data = request->data; /* the only bytes of the group, so do not copy them */
        else
            frame(file->buffer + group.bytes, request);
        group.bytes += framed_bytes(request);
        group.record_count += request->record_count;
        group.sync |= request->mode == BINLOG_SYNC;
    }
    if (area)
        area_remember(area, group.sync);
    int result = commit(file, area, header, live, &group, &step);
    /* If the slot is in the file and could not be published, recovery rolls it forward, and then resolves the note. */
    int pending = result != 0 && step == BINLOG_STEP_PUBLISH && !commit_poisons(result, step);
    if (area && !pending)
        area_set_outcomes(area, result, step);
    if (is_included) {
        request->number = file->number;
        request->offset = start + gathered->bytes;
        request->outcome = result;
        request->step = step;
    }
    return result;
}

/* A caller's framed records that are too large to copy are written from the caller's memory. */
static int commit_alone(struct binlog_file *file, struct binlog_area *area, uint8_t *header, struct live *live,
                        struct binlog_append *request)
{
    struct group group = {.data = request->data, .bytes = request->bytes, .record_count = request->record_count,
                          .sync = request->mode == BINLOG_SYNC};
    request->number = file->number;
    request->offset = live->tail;
    request->outcome = request->framed ? commit(file, area, header, live, &group, &request->step) : -EINVAL;
    return request->outcome;
}

/* Leads once, under the lock: 0, BINLOG_NEEDS_SLOW_PATH with nothing done, or -errno, with nothing done if `file->step` is 0.
 * `rung`: set if the doorbell was rung. */
static int lead_locked(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request, int flags,
                       int *rung)
{
    _Alignas(LOG_HEADER_BYTES) uint8_t header[LOG_HEADER_BYTES]; /* aligned, so that it does not cross a page */
    struct live live;
    struct gathered gathered;
    int result;

    file->step = 0;
    if ((result = check_state(file, area, header, &live)) != 0)
        return result;
    if (live.flags & FLAG_FOREIGN_WRITERS) /* a binlog writer saw another program here: always queue from now on */
        file->must_queue = 1;
    uint32_t bell = live.doorbell;
    do
        result = commit_staged(file, area, header, &live, request, flags & BINLOG_CONFIRM, &gathered);
    while (result == 0 && gathered.more && (flags & BINLOG_DRAIN));
    if (result == 0 && request && framed_bytes(request) > BINLOG_COPY_BYTES_MAX)
        result = commit_alone(file, area, header, &live, request);
    *rung = live.doorbell != bell;
    return result;
}

/* Leads once with the lock held, and releases it. */
static int lead(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request, int flags)
{
    int rung = 0;
    if (area)
        atomic_store_explicit(&area->shared->led, 1, memory_order_relaxed);
    int result = lead_locked(file, area, request, flags, &rung);
    if (area)
        atomic_store_explicit(&area->shared->led, 0, memory_order_relaxed);
    binlog_unlock(file->fd);
    if (area)
        area_wake(area);
    if (rung && file->bell)
        binlog_bell_wake(file->bell);
    return result;
}

/* Releases the lock without leading.  Waiters that relied on a deputy must check for themselves. */
static void release_lock(const struct binlog_file *file, struct binlog_area *area)
{
    binlog_unlock(file->fd);
    area_wake_staged(area);
}

/* The time starts at the first call, even if a signal causes more calls. */
static void start_waiting(struct binlog_append *request)
{
    if (request->timeout_ns < 0 || request->deadline_ns != 0)
        return;
    request->is_past_deadline = 0;
    request->deadline_ns = area_now_ns() + request->timeout_ns;
}

/* Stages the request and returns its ticket, for binlog_await_outcome or binlog_abandon; -EAGAIN if the ring is full, -EMSGSIZE
 * if the request is too large for every ring. */
int64_t binlog_stage(struct binlog_area *area, struct binlog_append *request, int awaited)
{
    start_waiting(request);
    return request->ticket = area_stage(area, request, awaited);
}

/* Waits for the lock as the deputy: 0 with the lock, -EAGAIN if another waiter is deputy, or -errno. */
static int lock_as_deputy(struct binlog_file *file, struct binlog_area *area,
                          const struct binlog_append *request)
{
    int result = binlog_byte_lock(area->fd, BINLOG_LOCK_DEPUTY);
    if (result != 0)
        return is_busy(result) ? -EAGAIN : result;
    atomic_store(&area->shared->deputised, 1);
    result = lock_queued(file, request);
    /* Before gathering: a waiter that still sees this set has staged a record that will be gathered. */
    atomic_store(&area->shared->deputised, 0);
    binlog_byte_unlock(area->fd, BINLOG_LOCK_DEPUTY);
    if (result != 0) /* such as a signal or the deadline: waiters that relied on a deputy must check for themselves */
        area_wake_staged(area);
    return result;
}

/* Called when a sleep timed out: the deputy may be stopped, or blocked on another file's lock, so try the lock.  Returns as
 * lock_as_deputy. */
static int lock_after_timeout(struct binlog_file *file, struct binlog_area *area,
                              const struct binlog_append *request)
{
    int result = lock_as_deputy(file, area, request);
    if (result == -EAGAIN && !file->must_queue)
        result = descriptor_is_ours(file) ? binlog_try_lock(file->fd) : BINLOG_NEEDS_SLOW_PATH;
    else if (result == -EAGAIN)
        result = lock_queued(file, request);
    return is_busy(result) ? -EAGAIN : result;
}

/* 0 before the deadline; -EBUSY with the record withdrawn; -ETIMEDOUT if a leader has taken it and its commit does not end. */
static int check_deadline(struct binlog_area *area, struct binlog_append *request)
{
    if (area_now_ns() < request->deadline_ns)
        return 0;
    if (request->ticket < 0) /* binlog_await_staged: the callers that staged the records withdraw them */
        return -EBUSY;
    int withdrawn = area_withdraw(area, request);
    if (!withdrawn && !request->is_past_deadline) {
        request->is_past_deadline = 1;
        request->deadline_ns = area_now_ns() + OUTCOME_WAIT_NS;
        return 0;
    }
    binlog_abandon(area, request);
    return withdrawn ? -EBUSY : -ETIMEDOUT;
}

/* Sleeps until a leader wakes the ring.  0; -EINTR; or as check_deadline.  timed_out: no leader did. */
static int sleep_in_ring(struct binlog_area *area, struct binlog_append *request, uint32_t wake_seq, int *timed_out)
{
    int64_t sleep_ns = AWAIT_NS;
    if (request->timeout_ns >= 0) {
        int result = check_deadline(area, request);
        int64_t left_ns = request->deadline_ns - area_now_ns();
        if (result != 0)
            return result;
        if (left_ns < sleep_ns)
            sleep_ns = left_ns > 0 ? left_ns : 0;
    }
    int result = area_await(area, wake_seq, sleep_ns);
    *timed_out = result == -ETIMEDOUT;
    return *timed_out ? 0 : result;
}

/* Whether the request has its outcome, or, without a ticket, everything that was staged before `head`. */
static int is_resolved(struct binlog_area *area, struct binlog_append *request, uint64_t head)
{
    return request->ticket >= 0 ? binlog_outcome(area, request) : area_is_resolved(area, head);
}

static int await(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request, uint64_t head)
{
    int timed_out = 0; /* the last sleep */
    request->step = 0;
    for (;;) {
        /* Read before the outcome: a process that changes the outcome increases wake_seq afterwards. */
        uint32_t wake_seq = area_wake_seq(area);
        if (is_resolved(area, request, head))
            return request->outcome;
        atomic_thread_fence(memory_order_seq_cst); /* the record must be visible before the check for a deputy */
        int result = -EAGAIN;
        if (timed_out)
            result = lock_after_timeout(file, area, request);
        else if (!atomic_load(&area->shared->deputised))
            result = lock_as_deputy(file, area, request);
        if (result == -EAGAIN) {
            if ((result = sleep_in_ring(area, request, wake_seq, &timed_out)) != 0)
                return result;
            continue;
        }
        if (result != 0)
            return result;
        if (is_resolved(area, request, head)) {
            release_lock(file, area);
            return request->outcome;
        }
        result = lead(file, area, NULL, 0);
        /* If the commit fails, the outcomes of its records say so; but one in Mode.STAGE is then staged again. */
        if (result != 0 && (file->step == 0 || request->ticket < 0))
            return result;
    }
}

/* Waits until the staged request has its outcome, and leads if necessary.  0 or -errno according to the outcome; -EBUSY at the
 * deadline, with nothing appended; BINLOG_NEEDS_SLOW_PATH or -EINTR with the ticket still valid. */
int binlog_await_outcome(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request)
{
    return await(file, area, request, 0);
}

/* As binlog_await_outcome, for everything that this writer has staged by now; the request has only the time limit.  0; -EBUSY at
 * the deadline; BINLOG_NEEDS_SLOW_PATH; -EINTR; or -errno with the step of the commit in `file->step`. */
int binlog_await_staged(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request)
{
    file->step = 0;
    request->ticket = -1;
    request->outcome = 0;
    start_waiting(request);
    return area->ring < 0 ? 0 : await(file, area, request, area_head(area));
}

/* Appends, alone or in a group.  0 with the place in the request; BINLOG_NEEDS_SLOW_PATH or -EINTR, with the record staged if the
 * ticket is not negative, and otherwise with nothing done; -EBUSY at the deadline, with nothing appended; else -errno, with the
 * step in the request. */
int binlog_append(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request)
{
    request->ticket = -1;
    request->outcome = 0;
    request->step = 0;
    if (!descriptor_is_ours(file))
        return BINLOG_NEEDS_SLOW_PATH;
    int can_stage = request->timeout_ns != 0 && area && area->ring >= 0;
    int taken = file->must_queue || (can_stage && atomic_load_explicit(&area->shared->led, memory_order_relaxed));
    int result = taken ? -EAGAIN : binlog_try_lock(file->fd);
    if (is_busy(result)) {
        int64_t begun_ns = area_now_ns();
        if (can_stage && binlog_stage(area, request, 1) >= 0) {
            result = binlog_await_outcome(file, area, request);
            count_wait(file, begun_ns);
            return result;
        }
        request->ticket = -1;
        start_waiting(request);
        result = lock_queued(file, request);
        count_wait(file, begun_ns);
        if (is_busy(result))
            return -EBUSY;
    }
    return result != 0 ? result : lead(file, area, request, 0);
}

/* As binlog_append, for a caller that holds the lock and keeps it; commits everything staged as well.  Wake with
 * binlog_area_wake. */
int binlog_append_locked(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request)
{
    int rung = 0;
    request->step = 0;
    if (request->ticket < 0)
        return lead_locked(file, area, request, 0, &rung);
    while (!binlog_outcome(area, request)) {
        int result = lead_locked(file, area, NULL, 0, &rung);
        if (result != 0 && file->step == 0)
            return result;
    }
    return request->outcome;
}

/* As binlog_append, for one unframed record; the result is in `request->answer`. */
void binlog_append_record(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request,
                          const uint8_t *data, size_t bytes, int mode)
{
    request->data = data;
    request->bytes = bytes;
    request->record_count = 1;
    request->framed = 0;
    request->mode = mode;
    request->deadline_ns = 0;
    request->answer = binlog_append(file, area, request);
}

/* Stages one record that no caller waits for. */
int binlog_stage_record(struct binlog_area *area, const uint8_t *data, size_t bytes)
{
    struct binlog_append request = {.data = data, .bytes = bytes, .record_count = 1, .mode = BINLOG_STAGE};
    if (area->ring < 0 || area->generation != binlog_fork_generation())
        return -EAGAIN;
    int64_t ticket = area_stage(area, &request, 0);
    return ticket < 0 ? (int)ticket : 0;
}

/* Commits everything staged, and with BINLOG_CONFIRM syncs everything in the file. */
int binlog_drain(struct binlog_file *file, struct binlog_area *area, int flags)
{
    file->step = 0;
    int result = lock_queued(file, NULL);
    return result != 0 ? result : lead(file, area, NULL, flags | BINLOG_DRAIN);
}

/* As binlog_drain, for a caller that holds the lock. */
int binlog_drain_locked(struct binlog_file *file, struct binlog_area *area, int flags)
{
    int rung = 0;
    return lead_locked(file, area, NULL, flags | BINLOG_DRAIN, &rung);
}

/* Commits bytes that the caller, who holds the lock, has written after the confirmed tail, and clears the intent in the same
 * write. 0, BINLOG_NEEDS_SLOW_PATH with nothing done, or -errno with the step. */
int binlog_commit_written(struct binlog_file *file, struct binlog_area *area, uint64_t bytes, uint32_t crc,
                          uint32_t record_count)
{
    _Alignas(LOG_HEADER_BYTES) uint8_t header[LOG_HEADER_BYTES];
    struct group group = {.bytes = bytes, .known_bytes = bytes, .known_crc = crc, .record_count = record_count, .sync = 1,
                          .written = 1};
    struct live live;
    int step = 0;

    file->step = 0;
    file->has_intent = 1;
    int result = check_state(file, area, header, &live);
    file->has_intent = 0;
    if (result != 0)
        return result;
    if (live.confirmed_end != live.tail)
        return BINLOG_NEEDS_SLOW_PATH;
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
