/* Staging in shared memory: a ring for each writer, and the note of whoever leads.
 *
 * Invariants
 * - A ring's owner holds a kernel lock on the ring's byte, so that its death is known.  Only the owner moves `head` and
 *   fills entries; it publishes an entry by moving `head` past it, so a half-written entry is never seen.
 * - All else in the segment is written only by who holds the lock of the open log file, but for an entry's change from
 *   STAGED, a compare-and-swap: to TAKEN by the leader, to WITHDRAWN by the owner.
 * - The note is written before any entry is taken and names all that were, so that a leader's death leaves no entry
 *   whose outcome cannot be told from the file (docs/durability.md).
 * - Nothing here is believed: numbers are read once and checked, a group is copied before it is looked at, and a ring
 *   that makes no sense is left alone.  The log is right without the segment.
 * Loads and stores that hand over memory are release and acquire; the rest need no order, for the lock gives it.
 */
#include "segment.h"

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

int64_t segment_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct entry *entry_at(const struct binlog_segment *segment, uint32_t ring, uint64_t position)
{
    uint8_t *base = (uint8_t *)segment->shared + SEGMENT_RINGS_AT + ring * RING_BYTES;
    return (struct entry *)(base + position % RING_BYTES);
}

static uint64_t entry_total(uint64_t payload)
{
    return ENTRY_BYTES + (payload + ENTRY_BYTES - 1) / ENTRY_BYTES * ENTRY_BYTES;
}

/* The bytes that the entry at `position` takes, or 0 where what stands there cannot be one. */
static uint64_t entry_size(const struct entry *entry, uint64_t position, uint64_t head, uint32_t *payload)
{
    *payload = *(const volatile uint32_t *)&entry->bytes;
    uint64_t total = entry_total(*payload);
    if (position % ENTRY_BYTES != 0 || total > head - position || position % RING_BYTES + total > RING_BYTES)
        return 0;
    return total;
}

/* ---- the owner's side ---- */

static struct ring *own_ring(const struct binlog_segment *segment)
{
    return &segment->shared->rings[segment->ring];
}

static void reclaim(struct binlog_segment *segment, uint64_t head)
{
    while (segment->free < head) {
        struct entry *entry = entry_at(segment, (uint32_t)segment->ring, segment->free);
        uint32_t state = atomic_load_explicit(&entry->state, memory_order_acquire), payload;
        if (state == ENTRY_STAGED || state == ENTRY_TAKEN || atomic_load(&entry->awaited))
            return;
        /* A leader still walks what it has not settled. */
        if (segment->free >= atomic_load_explicit(&own_ring(segment)->settled, memory_order_acquire))
            return;
        segment->free += entry_size(entry, segment->free, head, &payload);
    }
}

static void fill(struct entry *entry, const struct binlog_append *request, int awaited)
{
    uint8_t *payload = (uint8_t *)(entry + 1);
    entry->bytes = (uint32_t)request->bytes + (request->framed ? 0 : 4);
    entry->units = request->units;
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

/* The entry's position in the ring; -EAGAIN where the ring is full, -EMSGSIZE for what no ring takes. */
int64_t segment_stage(struct binlog_segment *segment, const struct binlog_append *request, int awaited)
{
    if (request->bytes > PAYLOAD_BYTES_MAX - 4)
        return -EMSGSIZE;
    struct ring *ring = own_ring(segment);
    uint64_t total = entry_total(request->bytes + (request->framed ? 0 : 4));
    pthread_mutex_lock(&segment->stage_mutex);
    if (segment->retired) {
        pthread_mutex_unlock(&segment->stage_mutex);
        return -EAGAIN;
    }
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t to_end = RING_BYTES - head % RING_BYTES, pad = total > to_end ? to_end : 0;
    int64_t position = -EAGAIN;
    if (head + pad + total - segment->free > RING_BYTES)
        reclaim(segment, head);
    if (head + pad + total - segment->free <= RING_BYTES) {
        if (pad) {
            struct entry *unused = entry_at(segment, (uint32_t)segment->ring, head);
            unused->bytes = (uint32_t)(pad - ENTRY_BYTES);
            atomic_store_explicit(&unused->awaited, 0, memory_order_relaxed);
            atomic_store_explicit(&unused->state, ENTRY_PAD, memory_order_relaxed);
        }
        position = (int64_t)(head + pad);
        fill(entry_at(segment, (uint32_t)segment->ring, head + pad), request, awaited);
        atomic_store_explicit(&ring->head, head + pad + total, memory_order_release);
    }
    pthread_mutex_unlock(&segment->stage_mutex);
    return position;
}

/* From now on nothing more is staged by this writer. */
void binlog_segment_retire(struct binlog_segment *segment)
{
    pthread_mutex_lock(&segment->stage_mutex);
    segment->retired = 1;
    pthread_mutex_unlock(&segment->stage_mutex);
}

/* 1 with the outcome in the request, once there is one; the entry is then given up. */
int binlog_outcome(struct binlog_segment *segment, struct binlog_append *request)
{
    struct entry *entry = entry_at(segment, (uint32_t)segment->ring, (uint64_t)request->ticket);
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

/* Takes the record back, so that no leader commits it; 0 where one has taken it. */
int segment_withdraw(struct binlog_segment *segment, const struct binlog_append *request)
{
    struct entry *entry = entry_at(segment, (uint32_t)segment->ring, (uint64_t)request->ticket);
    uint32_t staged = ENTRY_STAGED;
    return atomic_compare_exchange_strong(&entry->state, &staged, ENTRY_WITHDRAWN);
}

/* For a caller that waits no longer: 1 where the record was taken back, 0 where it is left to whoever has taken it. */
int binlog_abandon(struct binlog_segment *segment, struct binlog_append *request)
{
    struct entry *entry = entry_at(segment, (uint32_t)segment->ring, (uint64_t)request->ticket);
    int withdrawn = segment_withdraw(segment, request);
    atomic_store_explicit(&entry->awaited, 0, memory_order_release);
    request->ticket = -1;
    return withdrawn;
}

/* To be read before looking whether there is reason to sleep; see segment_await. */
uint32_t segment_turn(const struct binlog_segment *segment)
{
    return atomic_load(&segment->shared->turn);
}

static uint32_t waits_for(uint32_t ring)
{
    return (uint32_t)1 << ring % 32;
}

/* Sleeps until somebody wakes this ring, unless there was a turn since one was `seen`; 0, -ETIMEDOUT or -EINTR.  The
 * time-out is not for the impatient: it is what wakes a waiter whose leader died before waking it. */
int segment_await(struct binlog_segment *segment, uint32_t seen, int64_t timeout_ns)
{
    struct ring *ring = own_ring(segment);
    int64_t until_ns = segment_now_ns() + timeout_ns;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    atomic_store(&ring->waiting, 1);
    long result = syscall(SYS_futex, &segment->shared->turn, FUTEX_WAIT_BITSET, seen, &until, NULL,
                          waits_for((uint32_t)segment->ring));
    int reason = result == 0 ? 0 : errno;
    atomic_store(&ring->waiting, 0);
    return reason == EAGAIN ? 0 : -reason;
}

static uint32_t ring_limit(const struct binlog_segment *segment)
{
    uint32_t limit = atomic_load(&segment->shared->ring_limit);
    return limit < RING_COUNT ? limit : RING_COUNT;
}

/* ---- the leader's side, under the lock of the open file ---- */

/* Whether the bytes are whole records, one after the other, as many as said. */
static int is_framed(const uint8_t *data, size_t bytes, uint32_t units)
{
    while (bytes >= 4 && units > 0) {
        uint32_t length = get_u32(data);
        if (length > bytes - 4)
            return 0;
        data += 4 + length;
        bytes -= 4 + length;
        units--;
    }
    return bytes == 0 && units == 0;
}

/* Copies what is staged in one ring behind the group, and takes it. */
static void gather_ring(struct binlog_segment *segment, uint32_t index, uint8_t *buffer, struct gathered *gathered)
{
    struct ring *ring = &segment->shared->rings[index];
    struct note *note = &segment->shared->note;
    uint64_t from = atomic_load_explicit(&ring->settled, memory_order_relaxed), at = from;
    size_t before = gathered->bytes;
    uint64_t head = atomic_load(&ring->head); /* not before `deputised` was cleared: see lock_as_deputy */
    if (head - from > RING_BYTES || (at < head && !segment_has_memory(segment, index)))
        return;
    while (at < head) {
        struct entry *entry = entry_at(segment, index, at);
        uint32_t payload, staged = ENTRY_STAGED;
        uint64_t total = entry_size(entry, at, head, &payload);
        if (total == 0)
            break;
        if (gathered->bytes + payload > BINLOG_GROUP_BYTES_MAX) {
            /* Its owner may sleep, and nobody else need come by: after this turn it is to look for itself. */
            segment->wake_rings |= (uint64_t)1 << index;
            gathered->more = 1;
            break;
        }
        uint8_t *copy = buffer + gathered->bytes;
        if (atomic_load_explicit(&entry->state, memory_order_acquire) == ENTRY_STAGED) {
            uint32_t units = *(volatile uint32_t *)&entry->units;
            memcpy(copy, entry + 1, payload);
            if (!is_framed(copy, payload, units))
                break;
            if (atomic_compare_exchange_strong(&entry->state, &staged, ENTRY_TAKEN)) {
                gathered->bytes += payload;
                gathered->units += units;
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

/* Bit i: something is staged in ring i. */
static uint64_t staged_rings(const struct binlog_segment *segment)
{
    uint64_t rings = 0;
    for (uint32_t i = 0; i < ring_limit(segment); i++) {
        struct ring *ring = &segment->shared->rings[i];
        rings |= (uint64_t)(atomic_load(&ring->head) != atomic_load(&ring->settled)) << i;
    }
    return rings;
}

/* Waits a moment for those who took part in the last two groups: they were woken just now, and a sync for all of them
 * takes no longer than one for half of them.  docs/decisions/0007 has the figures. */
void segment_let_stage(const struct binlog_segment *segment, int own)
{
    const struct shared *shared = segment->shared;
    int expected = __builtin_popcountll(shared->recent_rings[0] | shared->recent_rings[1]);
    int64_t until = segment_now_ns() + LET_STAGE_NS;
    while (expected > 1 && __builtin_popcountll(staged_rings(segment)) + own < expected && segment_now_ns() < until)
        sched_yield();
}

/* Remembers whose records were in the group. */
void segment_remember(struct binlog_segment *segment, int synced)
{
    struct shared *shared = segment->shared;
    uint64_t rings = 0;
    for (uint32_t i = 0; synced && i < shared->note.range_count && i < RING_COUNT; i++)
        rings |= (uint64_t)1 << shared->note.ranges[i].ring % RING_COUNT;
    if (synced && segment->ring >= 0)
        rings |= (uint64_t)1 << segment->ring;
    shared->recent_rings[1] = shared->recent_rings[0];
    shared->recent_rings[0] = rings;
}

/* Takes what is staged, one ring after the other; the caller's own ring first where its records must not be left behind. */
void segment_gather(struct binlog_segment *segment, const struct binlog_file *file, int own_first,
                    struct gathered *gathered)
{
    struct note *note = &segment->shared->note;
    uint32_t first = own_first && segment->ring >= 0 ? (uint32_t)segment->ring : segment->next_ring;
    note->number = file->number;
    note->counter = 0;
    note->range_count = 0;
    atomic_store_explicit(&note->state, BINLOG_NOTE_GATHERING, memory_order_release);
    uint32_t limit = ring_limit(segment);
    if (first >= limit)
        first = 0;
    for (uint32_t i = first; i < limit; i++)
        gather_ring(segment, i, file->buffer, gathered);
    for (uint32_t i = 0; i < first; i++)
        gather_ring(segment, i, file->buffer, gathered);
    segment->next_ring = first + 1;
}

/* The note is complete: from here on the file tells whether the group is in it. */
void segment_place(struct binlog_segment *segment, uint64_t offset, uint32_t crc, size_t bytes)
{
    struct note *note = &segment->shared->note;
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
        /* The slot must not be in the file before the note can tell that it is ours. */
        atomic_thread_fence(memory_order_release);
    }
}

void note_slotted(struct note *note)
{
    if (note)
        atomic_store_explicit(&note->state, BINLOG_NOTE_SLOTTED, memory_order_release);
}

/* `offset`: where in the file the range's records begin.  Any leader before may have died at this, anywhere. */
static void settle_range(struct binlog_segment *segment, const struct note_range *range, uint64_t offset, int result,
                         int step)
{
    struct ring *ring = &segment->shared->rings[range->ring];
    uint32_t number = segment->shared->note.number;
    uint64_t settled = range->to;
    if (atomic_load(&ring->settled) >= range->to)
        return; /* told completely, and its owner may be using the place again */
    if (!segment_has_memory(segment, range->ring))
        return;
    for (uint64_t at = range->from; at < range->to;) {
        struct entry *entry = entry_at(segment, range->ring, at);
        uint32_t payload, state = ENTRY_DONE, was = atomic_load_explicit(&entry->state, memory_order_acquire);
        uint64_t total = entry_size(entry, at, range->to, &payload);
        if (total == 0)
            break;
        if (was == ENTRY_DONE && entry->number == number && entry->offset == offset) {
            offset += payload; /* of this group, and told already */
        } else if (was == ENTRY_STAGED) {
            if (settled > at) /* put back already; it must not be left behind */
                settled = at;
        } else if (was == ENTRY_TAKEN) {
            entry->number = number;
            entry->offset = offset;
            offset += payload;
            if (result == -ETIMEDOUT) {
                state = ENTRY_UNKNOWN;
            } else if (result != 0 && entry->mode == BINLOG_STAGE && step != BINLOG_STEP_PUBLISH_SYNC) {
                /* Nobody waits for it and it was promised to be kept: it goes into the next file, or when there is room.
                 * After publishing it is there already: confirmed, or as good as what `flush` promises. */
                state = ENTRY_STAGED;
                if (settled > at)
                    settled = at;
            } else if (result != 0 && entry->mode != BINLOG_STAGE) {
                state = ENTRY_FAILED;
                entry->offset = (uint64_t)step << 16 | (uint32_t)-result;
            }
            atomic_store_explicit(&entry->state, state, memory_order_release);
        }
        at += total;
    }
    atomic_store(&ring->settled, settled);
    segment->wake_rings |= (uint64_t)1 << range->ring;
}

/* Gives every entry of the group its outcome: in the file (0), failed (-errno), or not known (-ETIMEDOUT). */
void segment_settle(struct binlog_segment *segment, int result, int step)
{
    struct note *note = &segment->shared->note;
    uint64_t offset = note->offset;
    uint32_t count = note->range_count < RING_COUNT ? note->range_count : RING_COUNT;
    for (uint32_t i = 0; i < count; i++) {
        struct note_range range = note->ranges[i];
        if (range.ring < RING_COUNT && range.to - range.from <= RING_BYTES)
            settle_range(segment, &range, offset, result, step);
        offset += range.bytes;
    }
    if (result == 0 && note->counter) {
        segment->shared->last_number = note->number;
        segment->shared->last_counter = note->counter;
        segment->shared->last_nonce = note->nonce;
    }
    atomic_store_explicit(&note->state, BINLOG_NOTE_IDLE, memory_order_release);
}

/* A ring in which nothing makes sense, or that is of another history, starts anew. */
void binlog_segment_drop(struct binlog_segment *segment)
{
    for (uint32_t i = 0; i < RING_COUNT; i++) {
        struct ring *ring = &segment->shared->rings[i];
        atomic_store(&ring->settled, atomic_load(&ring->head));
    }
    atomic_store(&segment->shared->note.state, BINLOG_NOTE_IDLE);
}

/* Puts back every entry that was taken: none of them is in the file. */
void segment_requeue(struct binlog_segment *segment)
{
    for (uint32_t i = 0; i < ring_limit(segment); i++) {
        struct ring *ring = &segment->shared->rings[i];
        uint64_t at = atomic_load(&ring->settled), head = atomic_load(&ring->head), total;
        uint32_t payload;
        if (head - at > RING_BYTES || (at < head && !segment_has_memory(segment, i)))
            continue;
        for (; at < head; at += total) {
            struct entry *entry = entry_at(segment, i, at);
            uint32_t taken = ENTRY_TAKEN;
            if ((total = entry_size(entry, at, head, &payload)) == 0)
                break;
            if (atomic_compare_exchange_strong(&entry->state, &taken, ENTRY_STAGED))
                segment->wake_rings |= (uint64_t)1 << i;
        }
    }
    atomic_store_explicit(&segment->shared->note.state, BINLOG_NOTE_IDLE, memory_order_release);
}

/* Wakes those who have something staged. */
void segment_wake_staged(struct binlog_segment *segment)
{
    segment->wake_rings |= staged_rings(segment);
    segment_wake(segment);
}

/* Wakes those whose outcome is there.  After the unlock: they would only wait for us. */
void segment_wake(struct binlog_segment *segment)
{
    struct shared *shared = segment->shared;
    uint64_t rings = segment->wake_rings;
    uint32_t sleepers = 0;
    if (rings == 0)
        return;
    segment->wake_rings = 0;
    atomic_fetch_add(&shared->turn, 1);
    for (uint32_t i = 0; rings != 0; i++, rings >>= 1)
        if ((rings & 1) && atomic_load(&shared->rings[i].waiting))
            sleepers |= waits_for(i);
    if (sleepers)
        syscall(SYS_futex, &shared->turn, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, sleepers);
}
