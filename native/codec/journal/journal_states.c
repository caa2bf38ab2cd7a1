/* What became of each record of a journal: see binlog/journal/loading/record_states.py. */
#include "journal_states.h"

#include "big_endian.h"

#include <stdlib.h>

#define EVENTS_MAX 1000

/* States of records that nobody asks for any more. */
#define GONE (1 << DELETED | 1 << ROLLED_BACK | 1 << VOID | 1 << DONE)

/* As Event in binlog/journal/loading/record_states.py. */
enum event { UPDATE_OF_NONE = 1, DELETE_OF_NONE, LACKING };

int replay_reserve(void **array, size_t room, size_t size)
{
    void *larger = realloc(*array, room * size);
    if (!larger)
        return no_memory();
    *array = larger;
    return 0;
}

static int tell(struct replay *replay, enum event event, Py_ssize_t file, uint32_t index, Py_ssize_t other, uint32_t count)
{
    if (PyList_Size(replay->events) >= EVENTS_MAX)
        return 0;
    return add(replay->events, Py_BuildValue("(inInI)", (int)event, file - replay->lost_count, index,
                                             other - replay->lost_count, count));
}

/* A file must stay for as long as another one, of whose records it has the end. */
static int outlast(struct replay *replay, Py_ssize_t file, Py_ssize_t other)
{
    int64_t both = (int64_t)file << 32 | other;

    if (file == other || other < replay->lost_count || both == replay->outlasting_last)
        return 0;
    replay->outlasting_last = both;
    if (id_table_get(&replay->outlasting, both) != NONE)
        return 0;
    if (id_table_set(&replay->outlasting, both, 0) != 0)
        return no_memory();
    return add(replay->outlasts, Py_BuildValue("(nn)", file - replay->lost_count, other - replay->lost_count));
}

Py_ssize_t replay_file_of(struct replay *replay, uint32_t number)
{
    Py_ssize_t low = replay->file_met, high = replay->file_count;

    if (number < replay->files[low].first || number - replay->files[low].first >= replay->files[low].count) {
        for (low = 0; high - low > 1;) {
            Py_ssize_t middle = low + (high - low) / 2;
            if (replay->files[middle].first <= number)
                low = middle;
            else
                high = middle;
        }
        replay->file_met = low;
    }
    return low;
}

static int kind_of(struct replay *replay, uint32_t number)
{
    const struct file *file = &replay->files[replay_file_of(replay, number)];
    return file->kind[number - file->first];
}

static void become(struct replay *replay, uint32_t number, enum state state)
{
    const struct file *file = &replay->files[replay_file_of(replay, number)];
    replay->states[number] = (uint8_t)state;
    if (file->objects && (1 << state & GONE))
        PyList_SetItem(file->objects, number - file->first, Py_NewRef(Py_None));
}

/* A record, or an update, is there. */
static int put(struct replay *replay, uint32_t number, int64_t id)
{
    uint32_t last;
    if (id_table_swap(&replay->records, id, number, &last) != 0)
        return no_memory();
    if (last != NONE)
        replay->states[last] = UPDATED;
    replay->before[number] = last;
    replay->states[number] = LIVE;
    replay->order[replay->order_count++] = number;
    return 0;
}

/* A delete: what there is of its id is there no more.  Whether there was any, or -1. */
static int take(struct replay *replay, uint32_t deleting, int64_t id)
{
    uint32_t number = id_table_get(&replay->records, id);
    Py_ssize_t file = replay_file_of(replay, deleting);

    replay->order[replay->order_count++] = deleting;
    become(replay, deleting, number == NONE ? VOID : DONE);
    if (number == NONE)
        return 0;
    for (; number != NONE; number = replay->before[number]) {
        become(replay, number, DELETED);
        if (outlast(replay, file, replay_file_of(replay, number)) != 0)
            return -1;
    }
    return id_table_set(&replay->records, id, NONE) == 0 ? 1 : no_memory();
}

static int plain(struct replay *replay, Py_ssize_t file, uint32_t index)
{
    const struct file *in = &replay->files[file];
    int64_t id = number_at(in->record_id, index);
    uint32_t number = in->first + index;
    int kind = in->kind[index], taken;

    if (kind == JOURNAL_KIND_DELETE) {
        taken = take(replay, number, id);
        return taken ? (taken < 0 ? -1 : 0) : tell(replay, DELETE_OF_NONE, file, index, file, 0);
    }
    if (kind == JOURNAL_KIND_UPDATE && id_table_get(&replay->records, id) == NONE &&
        tell(replay, UPDATE_OF_NONE, file, index, file, 0) != 0)
        return -1;
    return put(replay, number, id);
}

int replay_collect(struct replay *replay, uint32_t last)
{
    replay->content_count = 0;
    for (uint32_t number = last; number != NONE; number = replay->before[number]) {
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

/* But for what prepared it before it was prepared once more, which stays void. */
static void set_content(struct replay *replay, enum state state)
{
    for (size_t i = 0; i < replay->content_count; i++)
        if (replay->states[replay->content[i]] != VOID)
            become(replay, replay->content[i], state);
}

/* A commit or prepare counts more of a transaction's records in a file than that has.  Without the file that would not be known,
 * so it stays for as long as the commit does. */
static int lack(struct replay *replay, Py_ssize_t file, uint32_t index, Py_ssize_t other, uint32_t count)
{
    replay->files[other].lacking = 1;
    if (other >= replay->lost_count && outlast(replay, other, file) != 0)
        return -1;
    return tell(replay, LACKING, file, index, other, count);
}

static int has_more(const struct file *file)
{
    return file->here > (file->said > 0 ? file->said : 0);
}

/* A file of which a transaction has records, or a commit says so. */
static struct file *touch(struct replay *replay, Py_ssize_t place)
{
    struct file *file = &replay->files[place];
    if (!file->is_touched) {
        file->is_touched = 1;
        replay->touched[replay->touched_count++] = place;
    }
    return file;
}

/* Whether a file came into use behind another one; ids as records have them begin again at 2**32. */
static int is_later(uint32_t file_id, uint32_t other)
{
    return file_id != other && file_id - other < 1U << 31;
}

/* Of files that a commit counts records in that which came into use first; 0 if there is none. */
static uint32_t oldest_of(const uint8_t *counts, size_t counts_bytes)
{
    uint32_t oldest = counts_bytes ? get_u32(counts) : 0;

    for (size_t at = 0; at < counts_bytes; at += JOURNAL_PLACE_BYTES)
        if (is_later(oldest, get_u32(counts + at)))
            oldest = get_u32(counts + at);
    return oldest;
}

/* Whether no writer counts so in a file: another file twice, or one that came into use later, or none of its records; -1 if
 * there is no memory. */
static int are_odd(uint32_t file_id, const uint8_t *counts, size_t counts_bytes)
{
    struct id_table met = {0};
    int result = 0;

    for (size_t at = 0; at < counts_bytes && result == 0; at += JOURNAL_PLACE_BYTES) {
        uint32_t said = get_u32(counts + at), before = NONE;
        result = (int32_t)get_u32(counts + at + 4) < 1 || is_later(said, file_id);
        if (result == 0 && counts_bytes > JOURNAL_PLACE_BYTES)
            result = id_table_swap(&met, said, 0, &before) != 0 ? no_memory() : before != NONE;
    }
    id_table_free(&met);
    return result;
}

/* Leave out what is more than is said: of an earlier transaction with the same id, which a crash left, and JBoss Messaging
 * does not end; its ids may come again.  It lies before the others of its file, which must not go before: it would come back. */
static int leave_orphans(struct replay *replay, Py_ssize_t by)
{
    size_t kept = 0;
    uint32_t last = NONE;

    for (size_t i = 0; i < replay->content_count; i++) {
        uint32_t number = replay->content[i];
        Py_ssize_t place = replay_file_of(replay, number);
        struct file *file = &replay->files[place];
        if (kind_of(replay, number) != JOURNAL_KIND_PREPARE && has_more(file)) {
            file->here--;
            become(replay, number, ROLLED_BACK);
            if (outlast(replay, by, place) != 0)
                return -1;
            continue;
        }
        replay->content[kept++] = number;
        replay->before[number] = last;
        last = number;
    }
    replay->content_count = kept;
    return 0;
}

/* Whether a file that a commit counts records in, and that is gone, it seems, may be one whose header is lost: not if it came
 * into use before the first use of that. */
static int look_for_unknown(struct replay *replay, Py_ssize_t file, uint32_t index, uint32_t file_id)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(replay->unknown) && !replay->doubt; i++) {
        uint32_t first = (uint32_t)PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(replay->unknown, i));
        if (PyErr_Occurred())
            return -1;
        if (is_later(first, file_id))
            continue;
        replay->doubt = Py_BuildValue("(nnI)", i, file - replay->lost_count, index);
        if (!replay->doubt)
            return -1;
    }
    return 0;
}

/* Compare what a commit or prepare says with `content`, of which is left what it means.  How many files lack something, or
 * -1 with an exception.  counts: as they lie in the record. */
static int compare(struct replay *replay, Py_ssize_t file, uint32_t index, const uint8_t *counts, size_t counts_bytes)
{
    int lacking = 0, result = 0, is_told = 0;
    int is_going = replay->content_count > 0;
    uint32_t own = replay->files[file].file_id, oldest = oldest_of(counts, counts_bytes);

    for (size_t i = 0; i < replay->content_count; i++)
        if (kind_of(replay, replay->content[i]) != JOURNAL_KIND_PREPARE)
            touch(replay, replay_file_of(replay, replay->content[i]))->here++;
    for (size_t i = 0; i < replay->touched_count; i++)
        replay->files[replay->touched[i]].met = replay->files[replay->touched[i]].here;
    for (size_t at = 0; at < counts_bytes && result == 0; at += JOURNAL_PLACE_BYTES) {
        uint32_t file_id = get_u32(counts + at), place = id_table_get(&replay->by_file_id, file_id);
        if (place != NONE) {
            touch(replay, place)->said = (int32_t)get_u32(counts + at + 4);
            replay->files[place].is_said = 1;
        } else if (is_going && !is_later(file_id, own)) {
            result = look_for_unknown(replay, file, index, file_id);
        }
    }
    if (result == 0)
        result = leave_orphans(replay, file);
    uint32_t own_count = replay->files[file].here;
    for (size_t i = 0; i < replay->touched_count; i++) {
        Py_ssize_t place = replay->touched[i];
        struct file *each = &replay->files[place];
        /* What is more, behind a file of which some is said, cannot be an earlier transaction's. */
        int is_more = counts_bytes && each->here < each->met && is_later(each->file_id, oldest);
        if (result == 0 && (is_more || (each->is_said && each->said != (int64_t)each->here))) {
            result = lack(replay, file, index, place, is_more ? each->met : each->here);
            is_told |= place == file;
            lacking++;
        }
        each->here = each->met = 0;
        each->said = each->is_said = each->is_touched = 0;
    }
    replay->touched_count = 0;
    int odd = result == 0 && !is_told ? are_odd(own, counts, counts_bytes) : 0;
    if (odd > 0)
        result = lack(replay, file, index, file, own_count);
    return result == 0 && odd >= 0 ? lacking + odd : -1;
}

/* What `content` does is there from here on, but for updates of what is not. */
static int apply(struct replay *replay)
{
    for (size_t i = 0; i < replay->content_count; i++) {
        uint32_t number = replay->content[i];
        const struct file *file = &replay->files[replay_file_of(replay, number)];
        int64_t id = number_at(file->record_id, number - file->first);
        int kind = file->kind[number - file->first], result = 0;
        if (kind == JOURNAL_KIND_PREPARE)
            become(replay, number, replay->states[number] == VOID ? VOID : DONE);
        else if (kind == JOURNAL_KIND_DELETE_TX)
            result = take(replay, number, id);
        else if (kind == JOURNAL_KIND_ADD_TX || id_table_get(&replay->records, id) != NONE)
            result = put(replay, number, id);
        else
            become(replay, number, VOID);
        if (result < 0)
            return -1;
    }
    return 0;
}

/* What a PREPARE or COMMIT counts is not what there is: in how many files; or -1.  ends: how many the file had before. */
static int compare_end(struct replay *replay, Py_ssize_t file, uint32_t index, Py_ssize_t *ends)
{
    char *counts;
    Py_ssize_t counts_bytes;
    PyObject *said = PyList_GetItem(replay->files[file].counts, (*ends)++);

    if (!said || PyBytes_AsStringAndSize(said, &counts, &counts_bytes) != 0)
        return -1;
    counts_bytes -= counts_bytes % JOURNAL_PLACE_BYTES;
    return compare(replay, file, index, (const uint8_t *)counts, (size_t)counts_bytes);
}

/* A transaction is prepared, or, by a commit, ended, though something of it is missing: until a rollback follows. */
static int hold(struct replay *replay, int64_t tx_id, uint32_t number, int kind, enum state state)
{
    uint32_t last = replay->content_count ? replay->content[replay->content_count - 1] : NONE, earlier = NONE;

    for (size_t i = 0; kind == JOURNAL_KIND_PREPARE && i < replay->content_count; i++)
        if (kind_of(replay, replay->content[i]) == JOURNAL_KIND_PREPARE)
            become(replay, replay->content[i], VOID);
    set_content(replay, state);
    replay->states[number] = (uint8_t)state;
    replay->before[number] = last;
    if (id_table_set(&replay->going, tx_id, kind == JOURNAL_KIND_PREPARE ? number : NONE) != 0 ||
        (kind == JOURNAL_KIND_COMMIT && id_table_swap(&replay->failed, tx_id, number, &earlier) != 0))
        return no_memory();
    if (earlier != NONE) /* that is told as one, and ended by one rollback */
        replay->before[replay->content_count ? replay->content[0] : number] = earlier;
    return 0;
}

/* A PREPARE, COMMIT or ROLLBACK. */
static int end(struct replay *replay, Py_ssize_t file, uint32_t index, Py_ssize_t *ends)
{
    int kind = replay->files[file].kind[index], lacking = 0;
    uint32_t number = replay->files[file].first + index;
    int64_t tx_id = number_at(replay->files[file].tx_id, index);
    uint32_t going = id_table_get(&replay->going, tx_id), last = going;

    if (last == NONE && kind == JOURNAL_KIND_ROLLBACK)
        last = id_table_get(&replay->failed, tx_id);
    if (replay_collect(replay, last) != 0)
        return -1;
    if (kind != JOURNAL_KIND_ROLLBACK && (lacking = compare_end(replay, file, index, ends)) < 0)
        return -1;
    int fails = lacking > 0 || (last != NONE && replay->states[last] == FAILED);
    if (kind == JOURNAL_KIND_PREPARE || (kind == JOURNAL_KIND_COMMIT && fails))
        return hold(replay, tx_id, number, kind, fails ? FAILED : PREPARED);
    become(replay, number, DONE);
    for (size_t i = 0; i < replay->content_count; i++)
        if (outlast(replay, file, replay_file_of(replay, replay->content[i])) != 0)
            return -1;
    if (last != NONE && id_table_set(going == NONE ? &replay->failed : &replay->going, tx_id, NONE) != 0)
        return no_memory();
    if (kind == JOURNAL_KIND_ROLLBACK) {
        if (going != NONE)
            set_content(replay, ROLLED_BACK);
        return 0;
    }
    if (apply(replay) != 0)
        return -1;
    replay->order[replay->order_count++] = number;
    return 0;
}

static int join(struct replay *replay, const struct file *in, uint32_t index)
{
    uint32_t number = in->first + index, last;
    if (id_table_swap(&replay->going, number_at(in->tx_id, index), number, &last) != 0)
        return no_memory();
    replay->before[number] = last;
    replay->states[number] = last == NONE ? OPEN : replay->states[last];
    return 0;
}

int replay_go_through(struct replay *replay, Py_ssize_t file)
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
            result = plain(replay, file, index);
            break;
        case JOURNAL_KIND_ADD_TX:
        case JOURNAL_KIND_UPDATE_TX:
        case JOURNAL_KIND_DELETE_TX:
            result = join(replay, in, index);
            break;
        default:
            result = end(replay, file, index, &ends);
        }
    }
    return result;
}

