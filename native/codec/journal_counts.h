/* What a commit or prepare of a journal says, as far as it can be judged by itself: for each file its id, as records have it,
 * and how many records of the transaction it has. */
#ifndef BINLOG_JOURNAL_COUNTS_H
#define BINLOG_JOURNAL_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#define JOURNAL_PLACE_BYTES 8 /* of a file's id, and of how many records are in it */

/* Whether a file came into use behind another one; ids as records have them begin anew at 2**32. */
int file_is_later(uint32_t file_id, uint32_t other);

/* Of files that are said that which came into use first; 0 where there is none. */
uint32_t counts_oldest(const uint8_t *counts, size_t counts_bytes);

/* Whether no writer says so in a file: another file twice, or one that came into use later, or none of its records; -1 where
 * there is no memory. */
int counts_are_odd(uint32_t file_id, const uint8_t *counts, size_t counts_bytes);

#endif
