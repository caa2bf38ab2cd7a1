/* Replay: computes the state of each record of a journal, see binlog/journal/loading/record_states.py. */
#include "journal_states.h"

#include "big_endian.h"

#include <stdlib.h>

#define SYMPTOMS_MAX 1000

/* States in which the object of a record is no longer needed. */
#define DEAD_STATES (1 << DELETED | 1 << ROLLED_BACK | 1 << VOID | 1 << DONE)

/* As Symptom in binlog/journal/loading/record_states.py. */
enum symptom { UPDATE_WITHOUT_RECORD = 1, DELETE_WITHOUT_RECORD, INCOMPLETE_TRANSACTION };

int replay_reserve(void **array, size_t room, size_t size)
{
    void *larger = realloc(*array, room * size);
    if (!larger)
        return no_memory();
    *array = larger;
    return 0;
}

static int report(struct replay *replay, enum symptom symptom, Py_ssize_t file, uint32_t index, Py_ssize_t other,
                  uint32_t count)
{
    if (PyList_Size(replay->symptoms) >= SYMPTOMS_MAX)
        return 0;
    return add(replay->symptoms, Py_BuildValue("(inInI)", (int)symptom, file - replay->unreadable_count, index,
                                               other - replay->unreadable_count, count));
}

/* Note that a file must outlive another one, because it ends records of the other one. */
static int note_must_outlive(struct replay *replay, Py_ssize_t file, Py_ssize_t other)
{
    int64_t both = (int64_t)file << 32 | other;

    if (file == other || other < replay->unreadable_count || both == replay->outlive_pair_last)
        return 0;
    replay->outlive_pair_last = both;
    if (id_table_get(&replay->outlive_pairs, both) != NONE)
        return 0;
    if (id_table_set(&replay->outlive_pairs, both, 0) != 0)
        return no_memory();
    return add(replay->must_outlive,
               Py_BuildValue("(nn)", file - replay->unreadable_count, other - replay->unreadable_count));
}

Py_ssize_t replay_file_of(struct replay *replay, uint32_t number)
{
    Py_ssize_t low = replay->last_file, high = replay->file_count;

    if (number < replay->files[low].first || number - replay->files[low].first >= replay->files[low].count) {
        for (low = 0; high - low > 1;) {
            Py_ssize_t middle = low + (high - low) / 2;
            if (replay->files[middle].first <= number)
                low = middle;
            else
                high = middle;
        }
        replay->last_file = low;
    }
    return low;
}

static int kind_of(struct replay *replay, uint32_t number)
{
    const struct file *file = &replay->files[replay_file_of(replay, number)];
    return file->kind[number - file->first];
}

static void set_state(struct replay *replay, uint32_t number, enum state state)
{
    const struct file *file = &replay->files[replay_file_of(replay, number)];
    replay->states[number] = (uint8_t)state;
    if (file->objects && (1 << state & DEAD_STATES))
        PyList_SetItem(file->objects, number - file->first, Py_NewRef(Py_None));
}

/* Make an add or update live. */
static int add_live(struct replay *replay, uint32_t number, int64_t id)
{
    uint32_t last;
    if (id_table_swap(&replay->records, id, number, &last) != 0)
        return no_memory();
    if (last != NONE)
        replay->states[last] = UPDATED;
    replay->previous[number] = last;
    replay->states[number] = LIVE;
    replay->order[replay->order_count++] = number;
    return 0;
}

/* Delete the record of an id with its updates.  Returns whether the record exists, or -1. */
static int delete_live(struct replay *replay, uint32_t deleting, int64_t id)
{
    uint32_t number = id_table_get(&replay->records, id);
    Py_ssize_t file = replay_file_of(replay, deleting);

    replay->order[replay->order_count++] = deleting;
    set_state(replay, deleting, number == NONE ? VOID : DONE);
    if (number == NONE)
        return 0;
    for (; number != NONE; number = replay->previous[number]) {
        set_state(replay, number, DELETED);
        if (note_must_outlive(replay, file, replay_file_of(replay, number)) != 0)
            return -1;
    }
    return id_table_set(&replay->records, id, NONE) == 0 ? 1 : no_memory();
}

static int apply_plain(struct replay *replay, Py_ssize_t file, uint32_t index)
{
    const struct file *in = &replay->files[file];
    int64_t id = number_at(in->record_id, index);
    uint32_t number = in->first + index;
    int kind = in->kind[index], existed;

    if (kind == JOURNAL_KIND_DELETE) {
        existed = delete_live(replay, number, id);
        return existed ? (existed < 0 ? -1 : 0) : report(replay, DELETE_WITHOUT_RECORD, file, index, file, 0);
    }
    if (kind == JOURNAL_KIND_UPDATE && id_table_get(&replay->records, id) == NONE &&
        report(replay, UPDATE_WITHOUT_RECORD, file, index, file, 0) != 0)
        return -1;
    return add_live(replay, number, id);
}

int replay_collect(struct replay *replay, uint32_t last)
{
    replay->content_count = 0;
    for (uint32_t number = last; number != NONE; number = replay->previous[number]) {
        if (replay->content_count == replay->content_room) {
            replay->content_room = replay->content_room ? 2 * replay->content_room : 64;
            if (replay_reserve((void **)&replay->content, replay->content_room, sizeof *replay->content) != 0)
                return -1;
        }
        replay->content[replay->content_count++] = number;
    }
    for (size_t i = 0, j = replay->content_count; i + 1 < j; i++) {
        uint32_t number = replay->content[--j];
        replay->content[j] = replay->content[i];
        replay->content[i] = number;
    }
    return 0;
}

/* Set the state of the records of a transaction, except prepares that a later prepare has made void. */
static void set_content(struct replay *replay, enum state state)
{
    for (size_t i = 0; i < replay->content_count; i++)
        if (replay->states[replay->content[i]] != VOID)
            set_state(replay, replay->content[i], state);
}

/* Report that a commit or prepare counts other records of its transaction in a file than the file has.  Without that file, the
 * commit would seem complete, so the file must outlive it. */
static int report_incomplete(struct replay *replay, Py_ssize_t file, uint32_t index, Py_ssize_t other, uint32_t count)
{
    replay->files[other].is_incomplete = 1;
    if (other >= replay->unreadable_count && note_must_outlive(replay, other, file) != 0)
        return -1;
    return report(replay, INCOMPLETE_TRANSACTION, file, index, other, count);
}

static int has_more(const struct file *file)
{
    return file->kept_count > (file->declared_count > 0 ? file->declared_count : 0);
}

/* Return a file, and note that the transaction or its commit refers to it. */
static struct file *touch(struct replay *replay, Py_ssize_t file_index)
{
    struct file *file = &replay->files[file_index];
    if (!file->is_touched) {
        file->is_touched = 1;
        replay->touched[replay->touched_count++] = file_index;
    }
    return file;
}

/* Whether a file came into use after another one.  Ids in records have 32 bits and wrap around. */
static int is_later(uint32_t file_id, uint32_t other)
{
    return file_id != other && file_id - other < 1U << 31;
}

/* Return the id of the oldest file in which a commit counts records; 0 if there is none. */
static uint32_t oldest_of(const uint8_t *counts, size_t counts_bytes)
{
    uint32_t oldest = counts_bytes ? get_u32(counts) : 0;

    for (size_t at = 0; at < counts_bytes; at += JOURNAL_COUNT_BYTES)
        if (is_later(oldest, get_u32(counts + at)))
            oldest = get_u32(counts + at);
    return oldest;
}

/* Whether no writer writes such counts: the same file twice, a later file than that of the commit, or no record in a file.  -1 if
 * out of memory. */
static int are_invalid_counts(uint32_t file_id, const uint8_t *counts, size_t counts_bytes)
{
    struct id_table counted = {0};
    int result = 0;

    for (size_t at = 0; at < counts_bytes && result == 0; at += JOURNAL_COUNT_BYTES) {
        uint32_t counted_id = get_u32(counts + at), previous = NONE;
        result = (int32_t)get_u32(counts + at + 4) < 1 || is_later(counted_id, file_id);
        if (result == 0 && counts_bytes > JOURNAL_COUNT_BYTES)
            result = id_table_swap(&counted, counted_id, 0, &previous) != 0 ? no_memory() : previous != NONE;
    }
    id_table_free(&counted);
    return result;
}

/* Drop records in excess of the counts.  They are of an earlier transaction with the same id, which a crash left open: JBoss
 * Messaging does not roll it back, and uses ids again.  They are the first ones of their file.  The file of the commit must
 * outlive that file; otherwise they would reappear. */
static int drop_orphans(struct replay *replay, Py_ssize_t by)
{
    size_t kept = 0;
    uint32_t last = NONE;

    for (size_t i = 0; i < replay->content_count; i++) {
        uint32_t number = replay->content[i];
        Py_ssize_t file_index = replay_file_of(replay, number);
        struct file *file = &replay->files[file_index];
        if (kind_of(replay, number) != JOURNAL_KIND_PREPARE && has_more(file)) {
            file->kept_count--;
            set_state(replay, number, ROLLED_BACK);
            if (note_must_outlive(replay, by, file_index) != 0)
                return -1;
            continue;
        }
        replay->content[kept++] = number;
        replay->previous[number] = last;
        last = number;
    }
    replay->content_count = kept;
    return 0;
}

/* A commit counts records in a file that seems to be gone.  Note the commit if that file may be one that has lost its header; it
 * cannot be one whose first use came later. */
static int check_headerless(struct replay *replay, Py_ssize_t file, uint32_t index, uint32_t file_id)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(replay->headerless) && !replay->suspect_commit; i++) {
        uint32_t first = (uint32_t)PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(replay->headerless, i));
        if (PyErr_Occurred())
            return -1;
        if (is_later(first, file_id))
            continue;
        replay->suspect_commit = Py_BuildValue("(nnI)", i, file - replay->unreadable_count, index);
        if (!replay->suspect_commit)
            return -1;
    }
    return 0;
}

/* Compare the counts of a commit or prepare with `content`, from which records of earlier transactions are dropped.  Returns how
 * many files lack records, or -1 with an exception. */
static int compare_counts(struct replay *replay, Py_ssize_t file, uint32_t index, const uint8_t *counts, size_t counts_bytes)
{
    int incomplete_count = 0, result = 0, is_reported = 0;
    int is_open = replay->content_count > 0;
    uint32_t own = replay->files[file].file_id, oldest = oldest_of(counts, counts_bytes);

    for (size_t i = 0; i < replay->content_count; i++)
        if (kind_of(replay, replay->content[i]) != JOURNAL_KIND_PREPARE)
            touch(replay, replay_file_of(replay, replay->content[i]))->kept_count++;
    for (size_t i = 0; i < replay->touched_count; i++)
        replay->files[replay->touched[i]].total_count = replay->files[replay->touched[i]].kept_count;
    for (size_t at = 0; at < counts_bytes && result == 0; at += JOURNAL_COUNT_BYTES) {
        uint32_t file_id = get_u32(counts + at), file_index = id_table_get(&replay->by_file_id, file_id);
        if (file_index != NONE) {
            touch(replay, file_index)->declared_count = (int32_t)get_u32(counts + at + 4);
            replay->files[file_index].is_declared = 1;
        } else if (is_open && !is_later(file_id, own)) {
            result = check_headerless(replay, file, index, file_id);
        }
    }
    if (result == 0)
        result = drop_orphans(replay, file);
    uint32_t own_count = replay->files[file].kept_count;
    for (size_t i = 0; i < replay->touched_count; i++) {
        Py_ssize_t file_index = replay->touched[i];
        struct file *each = &replay->files[file_index];
        /* An earlier transaction has no excess records in a file after the oldest one that is counted. */
        int is_more = counts_bytes && each->kept_count < each->total_count && is_later(each->file_id, oldest);
        if (result == 0 && (is_more || (each->is_declared && each->declared_count != (int64_t)each->kept_count))) {
            result = report_incomplete(replay, file, index, file_index, is_more ? each->total_count : each->kept_count);
            is_reported |= file_index == file;
            incomplete_count++;
        }
        each->kept_count = each->total_count = 0;
        each->declared_count = each->is_declared = each->is_touched = 0;
    }
    replay->touched_count = 0;
    int invalid = result == 0 && !is_reported ? are_invalid_counts(own, counts, counts_bytes) : 0;
    if (invalid > 0)
        result = report_incomplete(replay, file, index, file, own_count);
    return result == 0 && invalid >= 0 ? incomplete_count + invalid : -1;
}

/* Apply the operations in `content`.  Updates of unknown records have no effect. */
static int apply_transaction(struct replay *replay)
{
    for (size_t i = 0; i < replay->content_count; i++) {
        uint32_t number = replay->content[i];
        const struct file *file = &replay->files[replay_file_of(replay, number)];
        int64_t id = number_at(file->record_id, number - file->first);
        int kind = file->kind[number - file->first], result = 0;
        if (kind == JOURNAL_KIND_PREPARE)
            set_state(replay, number, replay->states[number] == VOID ? VOID : DONE);
        else if (kind == JOURNAL_KIND_DELETE_TX)
            result = delete_live(replay, number, id);
        else if (kind == JOURNAL_KIND_ADD_TX || id_table_get(&replay->records, id) != NONE)
            result = add_live(replay, number, id);
        else
            set_state(replay, number, VOID);
        if (result < 0)
            return -1;
    }
    return 0;
}

/* Compare the counts of a PREPARE or COMMIT; returns as compare_counts.  *ends: how many of these the file had before it. */
static int compare_end(struct replay *replay, Py_ssize_t file, uint32_t index, Py_ssize_t *ends)
{
    char *counts;
    Py_ssize_t counts_bytes;
    PyObject *packed = PyList_GetItem(replay->files[file].counts, (*ends)++);

    if (!packed || PyBytes_AsStringAndSize(packed, &counts, &counts_bytes) != 0)
        return -1;
    counts_bytes -= counts_bytes % JOURNAL_COUNT_BYTES;
    return compare_counts(replay, file, index, (const uint8_t *)counts, (size_t)counts_bytes);
}

/* Keep a transaction that is prepared, or that an incomplete commit ended, until its commit or rollback. */
static int hold_transaction(struct replay *replay, int64_t tx_id, uint32_t number, int kind, enum state state)
{
    uint32_t last = replay->content_count ? replay->content[replay->content_count - 1] : NONE, earlier = NONE;

    for (size_t i = 0; kind == JOURNAL_KIND_PREPARE && i < replay->content_count; i++)
        if (kind_of(replay, replay->content[i]) == JOURNAL_KIND_PREPARE)
            set_state(replay, replay->content[i], VOID);
    set_content(replay, state);
    replay->states[number] = (uint8_t)state;
    replay->previous[number] = last;
    if (id_table_set(&replay->open, tx_id, kind == JOURNAL_KIND_PREPARE ? number : NONE) != 0 ||
        (kind == JOURNAL_KIND_COMMIT && id_table_swap(&replay->failed, tx_id, number, &earlier) != 0))
        return no_memory();
    if (earlier != NONE) /* one rollback ends both, so they are reported as one */
        replay->previous[replay->content_count ? replay->content[0] : number] = earlier;
    return 0;
}

/* Replay a PREPARE, COMMIT or ROLLBACK. */
static int end_transaction(struct replay *replay, Py_ssize_t file, uint32_t index, Py_ssize_t *ends)
{
    int kind = replay->files[file].kind[index], incomplete_count = 0;
    uint32_t number = replay->files[file].first + index;
    int64_t tx_id = number_at(replay->files[file].tx_id, index);
    uint32_t open = id_table_get(&replay->open, tx_id), last = open;

    if (last == NONE && kind == JOURNAL_KIND_ROLLBACK)
        last = id_table_get(&replay->failed, tx_id);
    if (replay_collect(replay, last) != 0)
        return -1;
    if (kind != JOURNAL_KIND_ROLLBACK && (incomplete_count = compare_end(replay, file, index, ends)) < 0)
        return -1;
    int fails = incomplete_count > 0 || (last != NONE && replay->states[last] == FAILED);
    if (kind == JOURNAL_KIND_PREPARE || (kind == JOURNAL_KIND_COMMIT && fails))
        return hold_transaction(replay, tx_id, number, kind, fails ? FAILED : PREPARED);
    set_state(replay, number, DONE);
    for (size_t i = 0; i < replay->content_count; i++)
        if (note_must_outlive(replay, file, replay_file_of(replay, replay->content[i])) != 0)
            return -1;
    if (last != NONE && id_table_set(open == NONE ? &replay->failed : &replay->open, tx_id, NONE) != 0)
        return no_memory();
    if (kind == JOURNAL_KIND_ROLLBACK) {
        if (open != NONE)
            set_content(replay, ROLLED_BACK);
        return 0;
    }
    if (apply_transaction(replay) != 0)
        return -1;
    replay->order[replay->order_count++] = number;
    return 0;
}

static int add_to_transaction(struct replay *replay, const struct file *in, uint32_t index)
{
    uint32_t number = in->first + index, last;
    if (id_table_swap(&replay->open, number_at(in->tx_id, index), number, &last) != 0)
        return no_memory();
    replay->previous[number] = last;
    replay->states[number] = last == NONE ? OPEN : replay->states[last];
    return 0;
}

int replay_file(struct replay *replay, Py_ssize_t file)
{
    const struct file *in = &replay->files[file];
    Py_ssize_t ends = 0;
    int result = 0;

    for (uint32_t index = 0; index < in->count && result == 0; index++) {
        int64_t record_id = number_at(in->record_id, index), tx_id = number_at(in->tx_id, index);
        int64_t id = record_id > tx_id ? record_id : tx_id;
        replay->id_max = id > replay->id_max ? id : replay->id_max;
        switch (in->kind[index]) {
        case JOURNAL_KIND_ADD:
        case JOURNAL_KIND_UPDATE:
        case JOURNAL_KIND_DELETE:
            result = apply_plain(replay, file, index);
            break;
        case JOURNAL_KIND_ADD_TX:
        case JOURNAL_KIND_UPDATE_TX:
        case JOURNAL_KIND_DELETE_TX:
            result = add_to_transaction(replay, in, index);
            break;
        default:
            result = end_transaction(replay, file, index, &ends);
        }
    }
    return result;
}

