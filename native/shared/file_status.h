/* The size of a file, and whether it has a name; file_status.c. */
#ifndef BINLOG_FILE_STATUS_H
#define BINLOG_FILE_STATUS_H

#include <stdint.h>

int file_status(int fd, uint64_t *file_bytes, int *named);

#endif
