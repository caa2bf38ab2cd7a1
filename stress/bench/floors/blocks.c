/* The disk's rate: blocks of 1 MiB at the end of a file, left to the kernel or synced at the end. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "loop.h"

#define BLOCK_BYTES (1 << 20)

static int64_t write_blocks(const struct floor_work *work, int synced)
{
    int64_t at = 0;
    char *block = calloc(1, BLOCK_BYTES);
    int fd = open(work->path, O_WRONLY | O_CLOEXEC);

    do {
        if (pwrite(fd, block, BLOCK_BYTES, at) != BLOCK_BYTES)
            return floor_failed();
        at += BLOCK_BYTES;
    } while (!floor_stopped(work));
    if (synced && fdatasync(fd) != 0)
        return floor_failed();
    close(fd);
    free(block);
    return at / work->bytes;
}

int64_t floor_blocks(const struct floor_work *work)
{
    return write_blocks(work, 0);
}

int64_t floor_blocks_synced(const struct floor_work *work)
{
    return write_blocks(work, 1);
}
