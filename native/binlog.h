/* The functions that Python calls through cffi.  Python decides; these make system calls and run hot loops.
 *
 * Every function returns 0 or a count on success and -errno on failure.  None retries a call that a signal interrupted if Python
 * must see the signal.
 */
#ifndef BINLOG_H
#define BINLOG_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "codec.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* fork.c: descriptors that a child must not inherit */
int binlog_fork_setup(void);
uint32_t binlog_fork_generation(void);
uint64_t binlog_fork_thread(void);
void binlog_fork_hold(void);
void binlog_fork_release(void);
int binlog_fd_open(int directory, const char *name, int flags, int64_t *opened);
uint64_t binlog_fd_serial(int fd);
int binlog_fd_close_own(int fd, uint64_t device, uint64_t inode);
int binlog_fd_close_serial(int fd, uint64_t serial);

/* descriptors.c: the open descriptors of one object */
struct binlog_descriptors;
struct binlog_descriptors *binlog_descriptors_new(void);
int binlog_descriptors_open(struct binlog_descriptors *self, int directory, const char *name, int flags, int mode);
int binlog_descriptors_close(struct binlog_descriptors *self, int fd, uint64_t device, uint64_t inode);
void binlog_descriptors_clear(struct binlog_descriptors *self);
void binlog_descriptors_free(struct binlog_descriptors *self);

/* mapping.c: files mapped for writing */
void *binlog_map(int fd, size_t bytes);
int binlog_unmap(void *map, size_t bytes);
int binlog_map_populate(void *map, size_t offset, size_t bytes);
void binlog_mapped_write(void *map, size_t offset, const void *data, size_t bytes);
int binlog_erase(int fd, int64_t start, int64_t bytes);

/* key_index.c: keys put into a mapped file */
int64_t binlog_key_index_put(void *map, uint32_t slots, uint32_t entries_max, const int64_t *keys, int64_t count);

/* lock.c: the open-file-description lock over a whole file */
int binlog_lock(int fd);
int binlog_try_lock(int fd);
int binlog_lock_within(int fd, int64_t timeout_ns);
int binlog_unlock(int fd);
void binlog_hold(void);
int binlog_let_go(int fd);
int binlog_is_holding(void);
int64_t binlog_lock_owner(int fd);

int binlog_byte_lock(int fd, int64_t byte);
int binlog_byte_lock_wait(int fd, int64_t byte);
int binlog_byte_unlock(int fd, int64_t byte);
int binlog_bytes_locked(int fd, int64_t first, int64_t count);

/* file_status.c: the kind of a file and of its file system */
int64_t binlog_filesystem(int fd);
int binlog_has_name(int directory, const char *name);

/* commit.c: one commit to an open file */
enum binlog_commit_step {
    BINLOG_STEP_DATA = 1,
    BINLOG_STEP_SLOT,
    BINLOG_STEP_SYNC,
    BINLOG_STEP_PUBLISH,
    BINLOG_STEP_PUBLISH_SYNC
};
/* index.c: the index of an open file, as its writers in one process know it.  Python sets `fd`, `device` and `inode`, and
 * everything else to 0. */
struct binlog_index {
    int fd;              /* -1 for none */
    uint64_t device, inode;
    uint32_t from_crc;   /* the header's running CRC at `from` */
    uint64_t file_bytes; /* its size, always whole entries; 0 if unknown */
    uint64_t end;        /* the end of the last entry's range */
    uint64_t time_ns;    /* of the last entry */
    uint64_t from;       /* the start of the bytes in the log file that have no entry yet ... */
    uint64_t from_count; /* ... with the records before it ... */
    uint64_t counter;    /* ... the last confirmed commit ... */
    int64_t since_ns;    /* ... and the time of the first of them, by CLOCK_MONOTONIC_COARSE */
    uint64_t kept_from;  /* kept entries, not written yet, cover the range from here ... */
    uint64_t kept_end;   /* ... to here */
    uint64_t kept_time_ns;
    int64_t kept_since_ns;
    uint32_t kept_count;
    uint8_t kept[1280]; /* BINLOG_INDEX_KEPT_MAX of them */
};
/* covered.c: entries of an open index */
enum binlog_index_key { BINLOG_INDEX_BY_END = 0, BINLOG_INDEX_BY_OFFSET, BINLOG_INDEX_BY_SEQUENCE, BINLOG_INDEX_BY_TIME };
uint64_t binlog_index_search(int fd, uint32_t seed, int key, uint64_t value, uint64_t low, uint64_t count);

/* place.c: the directory and the name of an open log file.  Python fills it in; `changed_ns` and `looked_ns` are 0 at first. */
struct binlog_place {
    uint64_t device, inode; /* of the file */
    int directory;          /* the descriptor of its directory ... */
    uint64_t directory_device, directory_inode;
    int at;           /* the name is relative to this directory; AT_FDCWD for a path */
    const char *name; /* NULL for none, which is always valid */
    uint64_t file_bytes; /* the file's size at the last check of the descriptor */
    int64_t changed_ns, looked_ns; /* the directory's time of change, and the time of the last check of the name */
};
int binlog_fd_is(int fd, uint64_t device, uint64_t inode);
int binlog_path_is(const char *path, uint64_t device, uint64_t inode);
int binlog_fd_is_named(int fd, uint64_t device, uint64_t inode, uint64_t *file_bytes);

/* read.c: an open log file as a reader has it, and its index.  Python fills it in. */
struct binlog_reading {
    uint64_t device, inode; /* of the file */
    uint64_t index_device, index_inode;
    int fd;
    int index_fd; /* -1 for none */
    uint32_t record_bytes_max;
    struct binlog_index_state ranges; /* `end`: the start of the range of the entry `number`; UINT64_MAX if unknown */
    uint64_t number;
    uint64_t passed, passed_number; /* this many entries have ranges that end at or before `passed` */
    uint64_t first, buffered;        /* the first of `entries`, and their count */
    uint8_t entries[20480];
};
void binlog_reading_begin(struct binlog_reading *reading, int fd, uint64_t device, uint64_t inode, uint32_t seed,
                          uint32_t record_bytes_max);
int binlog_reading_open_index(struct binlog_reading *reading, int directory, const char *name, const uint8_t *header);
void binlog_reading_close_index(struct binlog_reading *reading);
enum binlog_read_outcome { BINLOG_READ_NO_INDEX = 0, BINLOG_READ_DAMAGED, BINLOG_READ_CUT };

/* An open log file, as its writers in one process know it.  Python fills it in under the file's lock. */
/* The leading and waiting of one writer in this process; the thread that is in a call changes it. */
struct binlog_counters {
    uint64_t groups;       /* it has led, with records */
    uint64_t records;      /* in those groups */
    uint64_t syncs;        /* it has made, one for each commit slot */
    uint64_t waits;        /* of appends that found the lock taken */
    uint64_t wait_ns, wait_ns_max;
};
struct binlog_file {
    int fd;
    uint32_t number;
    uint32_t seed;          /* of the CRCs of the live block and the slots */
    uint32_t epoch;         /* a different one means that a process recovered the file */
    uint64_t counter;       /* the last confirmed commit seen: it never goes back */
    uint64_t file_bytes;    /* its size when last seen */
    uint64_t prepare_bytes; /* the largest step in which it grows */
    uint8_t identity[40];   /* header bytes 24..63 */
    uint8_t boot_id[16];
    int strict;             /* sync again after publishing */
    int has_intent;               /* the holder of the lock has set the intent flag itself: see binlog_commit_written */
    int must_queue;              /* always queue for the lock: another program appends here too */
    int step;               /* the step at which the last failed commit failed */
    void *bell;             /* mapped, or NULL */
    uint8_t *buffer;        /* the group: the bytes that are checked are the bytes that are written */
    struct binlog_place place;
    struct binlog_index index;
    struct binlog_counters *counters; /* or NULL */
};
int binlog_index_flush(struct binlog_file *file); /* index.c */
int binlog_file_init(struct binlog_file *file);
void binlog_file_free(struct binlog_file *file);
int binlog_write(int fd, const uint8_t *data, size_t bytes, int64_t offset);
int binlog_commit_foreign(int fd, const uint8_t *data, size_t bytes, int64_t offset, uint64_t tail, int *step);
int binlog_write_out(int fd, int64_t offset, int64_t bytes, int wait);

/* group.c: appending together */
enum binlog_mode { BINLOG_SYNC = 1, BINLOG_FLUSH = 2, BINLOG_STAGE = 3, BINLOG_MODE_LAST = BINLOG_STAGE };
enum binlog_answer { BINLOG_NEEDS_SLOW_PATH = 1 };
enum binlog_drain_flags { BINLOG_CONFIRM = 1, BINLOG_DRAIN = 2 };
enum binlog_group_limits { BINLOG_GROUP_BYTES_MAX = 1048576, BINLOG_COPY_BYTES_MAX = 65536 };
/* A caller's request to append, and its outcome. */
struct binlog_append {
    const uint8_t *data;
    size_t bytes;
    uint32_t record_count;  /* in `data` */
    int framed;      /* the records have their lengths; otherwise `data` is one record without */
    int mode;        /* enum binlog_mode */
    int64_t timeout_ns; /* the longest wait for the lock; -1 forever, 0 not at all */
    int64_t deadline_ns;   /* by CLOCK_MONOTONIC, set when the wait begins; 0 before */
    int is_past_deadline;           /* the deadline passed after a leader had taken the record */
    int64_t ticket;  /* the position in the ring, -1 for none */
    int outcome;     /* 0, or -errno ... */
    int step;        /* ... and the step that failed */
    int answer;      /* the result of binlog_append */
    uint32_t number; /* the file ... */
    uint64_t offset; /* ... and the offset in it */
};
struct binlog_area;
int binlog_append(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request);
void binlog_append_record(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request,
                          const uint8_t *data, size_t bytes, int mode);
int binlog_stage_record(struct binlog_area *area, const uint8_t *data, size_t bytes);
int64_t binlog_stage(struct binlog_area *area, struct binlog_append *request, int awaited);
int binlog_await_outcome(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request);
int binlog_await_staged(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request);
int binlog_outcome(struct binlog_area *area, struct binlog_append *request);
int binlog_abandon(struct binlog_area *area, struct binlog_append *request);
int binlog_append_locked(struct binlog_file *file, struct binlog_area *area, struct binlog_append *request);
int binlog_drain(struct binlog_file *file, struct binlog_area *area, int flags);
int binlog_drain_locked(struct binlog_file *file, struct binlog_area *area, int flags);
int binlog_commit_written(struct binlog_file *file, struct binlog_area *area, uint64_t bytes, uint32_t crc,
                          uint32_t record_count);

/* staging_area_file.c: the life of a staging area */
enum binlog_note_state { BINLOG_NOTE_IDLE = 0, BINLOG_NOTE_GATHERING, BINLOG_NOTE_PREPARED, BINLOG_NOTE_SLOTTED };
enum binlog_lock_byte { BINLOG_LOCK_INIT = 0, BINLOG_LOCK_DEPUTY = 1, BINLOG_LOCK_RING_FIRST = 64 };
struct binlog_note {
    int state;
    uint32_t number, nonce, crc;
    uint64_t counter, offset, bytes;
    uint64_t last_counter; /* the last commit of a group: file, counter, nonce */
    uint32_t last_number, last_nonce;
};
int64_t binlog_area_bytes(void);
int binlog_area_make(int fd, uint64_t device, uint64_t inode, const uint8_t *uuid);
int binlog_area_check(int fd, uint64_t device, uint64_t inode, const uint8_t *uuid);
int64_t binlog_area_staged_in(int fd);
int binlog_area_alone(int fd);
int binlog_area_ring(const struct binlog_area *area);
struct binlog_area *binlog_area_map(int fd, int *result);
void binlog_area_unmap(struct binlog_area *area);
int binlog_area_claim(struct binlog_area *area);
void binlog_area_retire(struct binlog_area *area);
void binlog_area_release(struct binlog_area *area);
int64_t binlog_area_staged(struct binlog_area *area);
void binlog_area_note(struct binlog_area *area, struct binlog_note *note);
void binlog_area_resolve(struct binlog_area *area, int outcome);
void binlog_area_wake(struct binlog_area *area);
void binlog_area_drop(struct binlog_area *area);
void binlog_area_fail(struct binlog_area *area, uint32_t number, int error);
int binlog_area_failed(struct binlog_area *area, uint32_t number);
void binlog_area_forgive(struct binlog_area *area);

/* doorbell.c: the futex in the header */
void *binlog_bell_map(int fd, int64_t offset);
int binlog_bell_unmap(void *bell, int64_t offset);
int binlog_bell_wait(void *bell, uint32_t seen, int64_t timeout_ns);
int binlog_bell_wait_any(void **bells, const uint32_t *seen, uint32_t count, int64_t timeout_ns);
int binlog_bell_wake(void *bell);

/* header.c: the cached header of a log file, and whether it has changed */
struct binlog_header_cache {
    uint8_t header[256];
    uint64_t tail;
    uint32_t doorbell_at_previous_read; /* the doorbell as of the read before the last one */
    uint32_t seed;        /* of the live block's CRC */
    int fd;
    uint64_t device, inode; /* of the file that `fd` was opened on */
    int64_t read_ns;      /* the clock before the last check: bytes after `tail` were appended later */
};
enum binlog_header_change { BINLOG_HEADER_SAME = 0, BINLOG_HEADER_APPENDED, BINLOG_HEADER_UNSURE };
int binlog_header_refresh(struct binlog_header_cache *known);
int binlog_header_read_again(const struct binlog_header_cache *known, struct binlog_header_cache *now);
int64_t binlog_coarse_clock_ns(void);

#endif
