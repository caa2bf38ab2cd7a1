/* Staging in shared memory: a ring for each writer, and the note of the leader.
 *
 * Invariants
 * - A ring's owner holds a kernel lock on the ring's byte, so that its death is known.  Only the owner moves `head` and fills
 *   entries.  It publishes an entry by moving `head` past it, so no process sees a half-written entry.
 * - Only the holder of the open log file's lock writes the rest of the staging area, with one exception: an entry leaves the
 *   state STAGED by a compare-and-swap, to TAKEN by the leader, or to WITHDRAWN by the owner.
 * - The leader writes the note before it takes an entry, and the note names all taken entries.  So if the leader dies, the file
 *   tells the outcome of every entry (docs/durability.md).
 * - The staging area is not trusted: numbers are read once and checked, a group is copied before it is checked, and an invalid
 *   ring is left alone.  The log is correct without the staging area.
 * Loads and stores that hand over memory are release and acquire.  The rest need no order, because the lock gives it.
 */
#include "staging_area.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "big_endian.h"

int64_t area_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct entry *entry_at(const struct binlog_area *area, uint32_t ring, uint64_t position)
{
    uint8_t *base = (uint8_t *)area->shared + AREA_RINGS_AT + ring * RING_BYTES;
    return (struct entry *)(base + position % RING_BYTES);
}

static uint64_t entry_total(uint64_t payload)
{
    return ENTRY_BYTES + (payload + ENTRY_BYTES - 1) / ENTRY_BYTES * ENTRY_BYTES;
}

/* The size of the entry at `position`, or 0 if it cannot be an entry. */
static uint64_t entry_size(const struct entry *entry, uint64_t position, uint64_t head, uint32_t *payload)
{
    *payload = *(const volatile uint32_t *)&entry->bytes;
    uint64_t total = entry_total(*payload);
    if (position % ENTRY_BYTES != 0 || total > head - position || position % RING_BYTES + total > RING_BYTES)
        return 0;
    return total;
}

/* ---- the owner's side ---- */

static struct ring *own_ring(const struct binlog_area *area)
{
    return &area->shared->rings[area->ring];
}

static void reclaim(struct binlog_area *area, uint64_t head)
{
    while (area->free < head) {
        struct entry *entry = entry_at(area, (uint32_t)area->ring, area->free);
        uint32_t state = atomic_load_explicit(&entry->state, memory_order_acquire), payload;
        if (state == ENTRY_STAGED || state == ENTRY_TAKEN || atomic_load(&entry->awaited))
            return;
        /* The leader still walks entries without an outcome. */
        if (area->free >= atomic_load_explicit(&own_ring(area)->resolved, memory_order_acquire))
            return;
        area->free += entry_size(entry, area->free, head, &payload);
    }
}

static void fill(struct entry *entry, const struct binlog_append *request, int awaited)
{
    uint8_t *payload = (uint8_t *)(entry + 1);
    entry->bytes = (uint32_t)request->bytes + (request->framed ? 0 : 4);
    entry->record_count = request->record_count;
    entry->mode = (uint32_t)request->mode;
    entry->number = 0;
    entry->offset = 0;
    if (!request->framed) {
        put_u32(payload, (uint32_t)request->bytes);
        payload += 4;
    }
    memcpy(payload, request->data, request->bytes);
    atomic_store_explicit(&entry->awaited, (uint32_t)awaited, memory_order_relaxed);
    atomic_store_explicit(&entry->state, ENTRY_STAGED, memory_order_relaxed);
}

/* Returns the entry's position in the ring; -EAGAIN if the ring is full, -EMSGSIZE if the record is too large for every ring. */
int64_t area_stage(struct binlog_area *area, const struct binlog_append *request, int awaited)
{
    if (request->bytes > PAYLOAD_BYTES_MAX - 4)
        return -EMSGSIZE;
    struct ring *ring = own_ring(area);
    uint64_t total = entry_total(request->bytes + (request->framed ? 0 : 4));
    pthread_mutex_lock(&area->stage_mutex);
    if (area->retired) {
        pthread_mutex_unlock(&area->stage_mutex);
        return -EAGAIN;
    }
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t to_end = RING_BYTES - head % RING_BYTES, pad = total > to_end ? to_end : 0;
    int64_t position = -EAGAIN;
    if (head + pad + total - area->free > RING_BYTES)
        reclaim(area, head);
    if (head + pad + total - area->free <= RING_BYTES) {
        if (pad) {
            struct entry *unused = entry_at(area, (uint32_t)area->ring, head);
            unused->bytes = (uint32_t)(pad - ENTRY_BYTES);
            atomic_store_explicit(&unused->awaited, 0, memory_order_relaxed);
            atomic_store_explicit(&unused->state, ENTRY_PAD, memory_order_relaxed);
        }
        position = (int64_t)(head + pad);
        fill(entry_at(area, (uint32_t)area->ring, head + pad), request, awaited);
        atomic_store_explicit(&ring->head, head + pad + total, memory_order_release);
    }
    pthread_mutex_unlock(&area->stage_mutex);
    return position;
}

/* Stops this writer from staging. */
void binlog_area_retire(struct binlog_area *area)
{
    pthread_mutex_lock(&area->stage_mutex);
    area->retired = 1;
    pthread_mutex_unlock(&area->stage_mutex);
}

/* 1 with the outcome in the request, if there is one; the entry is then released. */
int binlog_outcome(struct binlog_area *area, struct binlog_append *request)
{
    struct entry *entry = entry_at(area, (uint32_t)area->ring, (uint64_t)request->ticket);
    uint32_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
    if (state == ENTRY_STAGED || state == ENTRY_TAKEN)
        return 0;
    request->number = entry->number;
    request->offset = entry->offset;
    request->outcome = 0;
    if (state != ENTRY_DONE) {
        request->outcome = state == ENTRY_UNKNOWN ? -ETIMEDOUT : -(int)(entry->offset & 0xFFFF);
        request->step = (int)(entry->offset >> 16);
    }
    atomic_store_explicit(&entry->awaited, 0, memory_order_release);
    request->ticket = -1;
    return 1;
}

/* Withdraws the record, so that no leader commits it; 0 if one has taken it. */
int area_withdraw(struct binlog_area *area, const struct binlog_append *request)
{
    struct entry *entry = entry_at(area, (uint32_t)area->ring, (uint64_t)request->ticket);
    uint32_t staged = ENTRY_STAGED;
    return atomic_compare_exchange_strong(&entry->state, &staged, ENTRY_WITHDRAWN);
}

/* The end of what this writer has staged. */
uint64_t area_head(const struct binlog_area *area)
{
    return atomic_load(&own_ring(area)->head);
}

/* Whether everything that this writer staged before `head` has its outcome. */
int area_is_resolved(const struct binlog_area *area, uint64_t head)
{
    return atomic_load_explicit(&own_ring(area)->resolved, memory_order_acquire) >= head;
}

/* For a caller that stops waiting: 1 if the record was withdrawn, 0 if a leader has taken it. */
int binlog_abandon(struct binlog_area *area, struct binlog_append *request)
{
    struct entry *entry = entry_at(area, (uint32_t)area->ring, (uint64_t)request->ticket);
    int withdrawn = area_withdraw(area, request);
    atomic_store_explicit(&entry->awaited, 0, memory_order_release);
    request->ticket = -1;
    return withdrawn;
}

/* Read this before the check for a reason to sleep; see area_await. */
uint32_t area_wake_seq(const struct binlog_area *area)
{
    return atomic_load(&area->shared->wake_seq);
}

static uint32_t waits_for(uint32_t ring)
{
    return (uint32_t)1 << ring % 32;
}

/* Sleeps until a process wakes this ring, unless wake_seq has changed since `seen`; 0, -ETIMEDOUT or -EINTR. The timeout is not a
 * deadline: it wakes a waiter whose leader died before waking it. */
int area_await(struct binlog_area *area, uint32_t seen, int64_t timeout_ns)
{
    struct ring *ring = own_ring(area);
    int64_t deadline_ns = area_now_ns() + timeout_ns;
    struct timespec until = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
    atomic_store(&ring->waiting, 1);
    long result = syscall(SYS_futex, &area->shared->wake_seq, FUTEX_WAIT_BITSET, seen, &until, NULL,
                          waits_for((uint32_t)area->ring));
    int reason = result == 0 ? 0 : errno;
    atomic_store(&ring->waiting, 0);
    return reason == EAGAIN ? 0 : -reason;
}

static uint32_t ring_limit(const struct binlog_area *area)
{
    uint32_t limit = atomic_load(&area->shared->ring_limit);
    return limit < RING_COUNT ? limit : RING_COUNT;
}

/* ---- the leader's side, under the lock of the open file ---- */

/* Whether the bytes are exactly this many whole records. */
static int is_framed(const uint8_t *data, size_t bytes, uint32_t record_count)
{
    while (bytes >= 4 && record_count > 0) {
        uint32_t length = get_u32(data);
        if (length > bytes - 4)
            return 0;
        data += 4 + length;
        bytes -= 4 + length;
        record_count--;
    }
    return bytes == 0 && record_count == 0;
}

/* Copies the staged records of one ring to the end of the group, and takes them. */
static void gather_ring(struct binlog_area *area, uint32_t index, uint8_t *buffer, struct gathered *gathered)
{
    struct ring *ring = &area->shared->rings[index];
    struct note *note = &area->shared->note;
    uint64_t from = atomic_load_explicit(&ring->resolved, memory_order_relaxed), at = from;
    size_t before = gathered->bytes;
    uint64_t head = atomic_load(&ring->head); /* not before `deputised` is cleared: see lock_as_deputy */
    if (head - from > RING_BYTES || (at < head && !area_has_memory(area, index)))
        return;
    while (at < head) {
        struct entry *entry = entry_at(area, index, at);
        uint32_t payload, staged = ENTRY_STAGED;
        uint64_t total = entry_size(entry, at, head, &payload);
        if (total == 0)
            break;
        if (gathered->bytes + payload > BINLOG_GROUP_BYTES_MAX) {
            /* The owner may sleep, and no other process need come: wake it after this commit, to check for itself. */
            area->wake_rings |= (uint64_t)1 << index;
            gathered->more = 1;
            break;
        }
        uint8_t *copy = buffer + gathered->bytes;
        if (atomic_load_explicit(&entry->state, memory_order_acquire) == ENTRY_STAGED) {
            uint32_t record_count = *(volatile uint32_t *)&entry->record_count;
            memcpy(copy, entry + 1, payload);
            if (!is_framed(copy, payload, record_count))
                break;
            if (atomic_compare_exchange_strong(&entry->state, &staged, ENTRY_TAKEN)) {
                gathered->bytes += payload;
                gathered->record_count += record_count;
                gathered->sync |= entry->mode == BINLOG_SYNC;
            }
        }
        at += total;
    }
    if (at > from) {
        uint32_t bytes = (uint32_t)(gathered->bytes - before);
        note->ranges[note->range_count++] = (struct note_range){.ring = index, .bytes = bytes, .from = from, .to = at};
    }
}

/* Bit i: ring i has staged records. */
static uint64_t staged_rings(const struct binlog_area *area)
{
    uint64_t rings = 0;
    for (uint32_t i = 0; i < ring_limit(area); i++) {
        struct ring *ring = &area->shared->rings[i];
        rings |= (uint64_t)(atomic_load(&ring->head) != atomic_load(&ring->resolved)) << i;
    }
    return rings;
}

/* Waits briefly for the writers that had records in the last two groups: they were woken just now, and one sync for all takes no
 * longer than a sync for half of them. docs/decisions/0007 has the figures. */
void area_let_stage(const struct binlog_area *area, int has_request)
{
    const struct shared *shared = area->shared;
    int expected = __builtin_popcountll(shared->recent_rings[0] | shared->recent_rings[1]);
    int64_t until = area_now_ns() + LET_STAGE_NS;
    while (expected > 1 && __builtin_popcountll(staged_rings(area)) + has_request < expected && area_now_ns() < until)
        sched_yield();
}

/* Remembers the rings that had records in the group. */
void area_remember(struct binlog_area *area, int synced)
{
    struct shared *shared = area->shared;
    uint64_t rings = 0;
    for (uint32_t i = 0; synced && i < shared->note.range_count && i < RING_COUNT; i++)
        rings |= (uint64_t)1 << shared->note.ranges[i].ring % RING_COUNT;
    if (synced && area->ring >= 0)
        rings |= (uint64_t)1 << area->ring;
    shared->recent_rings[1] = shared->recent_rings[0];
    shared->recent_rings[0] = rings;
}

/* Takes the staged records, ring by ring; the caller's own ring first if its records must be in the group. */
void area_gather(struct binlog_area *area, const struct binlog_file *file, int own_first,
                 struct gathered *gathered)
{
    struct note *note = &area->shared->note;
    uint32_t first = own_first && area->ring >= 0 ? (uint32_t)area->ring : area->next_ring;
    note->number = file->number;
    note->counter = 0;
    note->range_count = 0;
    atomic_store_explicit(&note->state, BINLOG_NOTE_GATHERING, memory_order_release);
    uint32_t limit = ring_limit(area);
    if (first >= limit)
        first = 0;
    for (uint32_t i = first; i < limit; i++)
        gather_ring(area, i, file->buffer, gathered);
    for (uint32_t i = 0; i < first; i++)
        gather_ring(area, i, file->buffer, gathered);
    area->next_ring = first + 1;
}

/* Completes the note: from here on the file tells whether the group is in it. */
void area_place(struct binlog_area *area, uint64_t offset, uint32_t crc, size_t bytes)
{
    struct note *note = &area->shared->note;
    note->offset = offset;
    note->crc = crc;
    note->bytes = bytes;
    atomic_store_explicit(&note->state, BINLOG_NOTE_PREPARED, memory_order_release);
}

void note_prepare(struct note *note, uint64_t counter, uint32_t nonce)
{
    if (note) {
        note->nonce = nonce;
        note->counter = counter;
        /* The note must identify the slot before the slot is in the file. */
        atomic_thread_fence(memory_order_release);
    }
}

void note_slotted(struct note *note)
{
    if (note)
        atomic_store_explicit(&note->state, BINLOG_NOTE_SLOTTED, memory_order_release);
}

/* `offset`: of the range's records in the file.  An earlier leader may have died in this function, at any point. */
static void set_range_outcomes(struct binlog_area *area, const struct note_range *range, uint64_t offset, int result,
                               int step)
{
    struct ring *ring = &area->shared->rings[range->ring];
    uint32_t number = area->shared->note.number;
    uint64_t resolved = range->to;
    if (atomic_load(&ring->resolved) >= range->to)
        return; /* all outcomes are set, and the owner may be reusing the memory */
    if (!area_has_memory(area, range->ring))
        return;
    for (uint64_t at = range->from; at < range->to;) {
        struct entry *entry = entry_at(area, range->ring, at);
        uint32_t payload, state = ENTRY_DONE, was = atomic_load_explicit(&entry->state, memory_order_acquire);
        uint64_t total = entry_size(entry, at, range->to, &payload);
        if (total == 0)
            break;
        if (was == ENTRY_DONE && entry->number == number && entry->offset == offset) {
            offset += payload; /* of this group, with its outcome already */
        } else if (was == ENTRY_STAGED) {
            if (resolved > at) /* requeued already, and not to be lost */
                resolved = at;
        } else if (was == ENTRY_TAKEN) {
            entry->number = number;
            entry->offset = offset;
            offset += payload;
            if (result == -ETIMEDOUT) {
                state = ENTRY_UNKNOWN;
            } else if (result != 0 && entry->mode == BINLOG_STAGE && step != BINLOG_STEP_PUBLISH_SYNC) {
                /* No caller waits for this record, and it must not be lost: it goes to the next file, or is retried when there is
                 * room.  After publishing it is in the file already: confirmed, or as safe as `flush` promises. */
                state = ENTRY_STAGED;
                if (resolved > at)
                    resolved = at;
            } else if (result != 0 && entry->mode != BINLOG_STAGE) {
                state = ENTRY_FAILED;
                entry->offset = (uint64_t)step << 16 | (uint32_t)-result;
            }
            atomic_store_explicit(&entry->state, state, memory_order_release);
        }
        at += total;
    }
    atomic_store(&ring->resolved, resolved);
    area->wake_rings |= (uint64_t)1 << range->ring;
}

/* Gives every entry of the group its outcome: in the file (0), failed (-errno), or unknown (-ETIMEDOUT). */
void area_set_outcomes(struct binlog_area *area, int result, int step)
{
    struct note *note = &area->shared->note;
    uint64_t offset = note->offset;
    uint32_t count = note->range_count < RING_COUNT ? note->range_count : RING_COUNT;
    for (uint32_t i = 0; i < count; i++) {
        struct note_range range = note->ranges[i];
        if (range.ring < RING_COUNT && range.to - range.from <= RING_BYTES)
            set_range_outcomes(area, &range, offset, result, step);
        offset += range.bytes;
    }
    if (result == 0 && note->counter) {
        area->shared->last_number = note->number;
        area->shared->last_counter = note->counter;
        area->shared->last_nonce = note->nonce;
    }
    atomic_store_explicit(&note->state, BINLOG_NOTE_IDLE, memory_order_release);
}

/* Empties the rings, if they are invalid or belong to another history. */
void binlog_area_drop(struct binlog_area *area)
{
    for (uint32_t i = 0; i < RING_COUNT; i++) {
        struct ring *ring = &area->shared->rings[i];
        atomic_store(&ring->resolved, atomic_load(&ring->head));
    }
    atomic_store(&area->shared->note.state, BINLOG_NOTE_IDLE);
}

/* Stages every taken entry again: none of them is in the file. */
void area_requeue(struct binlog_area *area)
{
    for (uint32_t i = 0; i < ring_limit(area); i++) {
        struct ring *ring = &area->shared->rings[i];
        uint64_t at = atomic_load(&ring->resolved), head = atomic_load(&ring->head), total;
        uint32_t payload;
        if (head - at > RING_BYTES || (at < head && !area_has_memory(area, i)))
            continue;
        for (; at < head; at += total) {
            struct entry *entry = entry_at(area, i, at);
            uint32_t taken = ENTRY_TAKEN;
            if ((total = entry_size(entry, at, head, &payload)) == 0)
                break;
            if (atomic_compare_exchange_strong(&entry->state, &taken, ENTRY_STAGED))
                area->wake_rings |= (uint64_t)1 << i;
        }
    }
    atomic_store_explicit(&area->shared->note.state, BINLOG_NOTE_IDLE, memory_order_release);
}

/* Wakes the writers that have staged records. */
void area_wake_staged(struct binlog_area *area)
{
    area->wake_rings |= staged_rings(area);
    area_wake(area);
}

/* Wakes the writers whose outcome is set.  After the unlock, or they would wait for the lock. */
void area_wake(struct binlog_area *area)
{
    struct shared *shared = area->shared;
    uint64_t rings = area->wake_rings;
    uint32_t sleepers = 0;
    if (rings == 0)
        return;
    area->wake_rings = 0;
    atomic_fetch_add(&shared->wake_seq, 1);
    for (uint32_t i = 0; rings != 0; i++, rings >>= 1)
        if ((rings & 1) && atomic_load(&shared->rings[i].waiting))
            sleepers |= waits_for(i);
    if (sleepers)
        syscall(SYS_futex, &shared->wake_seq, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, sleepers);
}
