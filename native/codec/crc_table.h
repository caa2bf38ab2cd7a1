/* CRCs of 32 bits by a table, a byte at a time: for processors without an instruction, and for the remaining bytes. */
#ifndef BINLOG_CRC_TABLE_H
#define BINLOG_CRC_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* polynomial: reflected. */
static inline void crc_table_build(uint32_t *table, uint32_t polynomial)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0);
        table[byte] = crc;
    }
}

static inline uint32_t crc_by_table(const uint32_t *table, uint32_t crc, const uint8_t *data, size_t bytes)
{
    while (bytes-- > 0)
        crc = table[(crc ^ *data++) & 0xFF] ^ (crc >> 8);
    return crc;
}

#endif
