/* The least that reading a log takes: large reads, following the lengths, copying each record out. */
#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loop.h"

#define READ_BYTES (1 << 20)
#define HEADER_BYTES 256

/* The records in `bytes` bytes; *used are those of whole ones. */
static int64_t copy_records(const char *chunk, size_t bytes, char *record, size_t *used)
{
    int64_t count = 0;
    uint32_t length;

    for (*used = 0; *used + sizeof length <= bytes; *used += sizeof length + length, count++) {
        memcpy(&length, chunk + *used, sizeof length);
        length = be32toh(length);
        if (length > bytes - *used - sizeof length)
            break;
        memcpy(record, chunk + *used + sizeof length, length);
        /* Without it the compiler may see that the copy is never read. */
        __asm__ volatile("" : : "r"(record) : "memory");
    }
    return count;
}

int64_t floor_read(const struct floor_work *work)
{
    int64_t count = 0, at = 0, tail = 0;
    size_t used;
    char *chunk = malloc(READ_BYTES), *record = malloc(READ_BYTES);
    int fd = open(work->path, O_RDONLY | O_CLOEXEC);

    do {
        if (at >= tail) {
            if (pread(fd, &tail, sizeof tail, 8) != sizeof tail)
                return floor_failed();
            tail = (int64_t)be64toh((uint64_t)tail);
            at = HEADER_BYTES;
        }
        ssize_t got = pread(fd, chunk, tail - at < READ_BYTES ? (size_t)(tail - at) : READ_BYTES, at);
        if (got <= 0)
            return floor_failed();
        count += copy_records(chunk, (size_t)got, record, &used);
        at += (int64_t)used;
    } while (!floor_stopped(work) || at < tail);
    close(fd);
    free(chunk);
    free(record);
    return count;
}
