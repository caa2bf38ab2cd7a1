/* Big-endian integers, as in files, at any address. */
#ifndef BINLOG_BIG_ENDIAN_H
#define BINLOG_BIG_ENDIAN_H

#include <stdint.h>
#include <string.h>

static inline uint16_t get_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t get_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return __builtin_bswap32(value);
}

static inline uint64_t get_u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return __builtin_bswap64(value);
}

static inline void put_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void put_u32(uint8_t *at, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(at, &value, 4);
}

static inline void put_u64(uint8_t *at, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(at, &value, 8);
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "this code needs a little-endian machine: x86-64 or aarch64"
#endif

#endif
