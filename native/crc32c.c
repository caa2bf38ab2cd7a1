/* CRC-32C (Castagnoli), RFC 3720 appendix B.4: by the processor's instruction where it has one, else by table.
 *
 * Tables and powers are built once, when the module loads, before any other thread can call.
 */
#include "binlog.h"

#include "crc_table.h"

#include <string.h>

#define POLYNOMIAL 0x82F63B78u /* reflected */

static uint32_t table[256];

static uint32_t by_table(uint32_t crc, const uint8_t *data, size_t bytes)
{
    return crc_by_table(table, crc, data, bytes);
}

/* Polynomials are taken modulo the CRC's, and are reflected: bit 31 is x^0.  One of them times x. */
static uint32_t times_x(uint32_t a)
{
    return (a >> 1) ^ (a & 1 ? POLYNOMIAL : 0);
}

/* The product of two. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = (uint32_t)1 << 31; bit != 0; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = times_x(b);
    }
    return product;
}

#define SMALL_BITS 12

/* x^8, and the square of each one before; and x^(8 * i). */
static uint32_t squares[64], small_powers[1 << SMALL_BITS];

__attribute__((constructor(101))) static void build_tables(void) /* before build_powers */
{
    crc_table_build(table, POLYNOMIAL);
    squares[0] = (uint32_t)1 << 23;
    for (int i = 1; i < 64; i++)
        squares[i] = multiply(squares[i - 1], squares[i - 1]);
    small_powers[0] = (uint32_t)1 << 31; /* 1 */
    for (int i = 1; i < 1 << SMALL_BITS; i++)
        small_powers[i] = crc_by_table(table, small_powers[i - 1], (const uint8_t[]){0}, 1);
}

/* x^(8 * bytes): what a CRC is multiplied by for so many zeros behind its data. */
static uint32_t power_of(uint64_t bytes)
{
    uint32_t result = small_powers[bytes % (1 << SMALL_BITS)];
    const uint32_t *square = squares + SMALL_BITS;
    for (bytes >>= SMALL_BITS; bytes != 0; bytes >>= 1, square++)
        if (bytes & 1)
            result = multiply(result, *square);
    return result;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

/* The instruction takes three cycles, and one can begin in each: so three parts of the data are gone through at once. */
#define PART_BYTES ((size_t)2048)

static uint32_t one_part, two_parts;

__attribute__((constructor)) static void build_powers(void)
{
    one_part = power_of(PART_BYTES);
    two_parts = power_of(2 * PART_BYTES);
}

__attribute__((target("sse4.2"))) static uint32_t three_parts(uint32_t crc, const uint8_t *data)
{
    uint64_t first = crc, second = 0, third = 0, word;
    for (const uint8_t *end = data + PART_BYTES; data < end; data += 8) {
        memcpy(&word, data, 8);
        first = _mm_crc32_u64(first, word);
        memcpy(&word, data + PART_BYTES, 8);
        second = _mm_crc32_u64(second, word);
        memcpy(&word, data + 2 * PART_BYTES, 8);
        third = _mm_crc32_u64(third, word);
    }
    return multiply((uint32_t)first, two_parts) ^ multiply((uint32_t)second, one_part) ^ (uint32_t)third;
}

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *data, size_t bytes)
{
    for (; bytes >= 3 * PART_BYTES; data += 3 * PART_BYTES, bytes -= 3 * PART_BYTES)
        crc = three_parts(crc, data);
    uint64_t wide = crc;
    while (bytes >= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        wide = _mm_crc32_u64(wide, word);
        data += 8;
        bytes -= 8;
    }
    crc = (uint32_t)wide;
    if (bytes >= 4) {
        uint32_t half;
        memcpy(&half, data, 4);
        crc = _mm_crc32_u32(crc, half);
        data += 4;
        bytes -= 4;
    }
    while (bytes-- > 0)
        crc = _mm_crc32_u8(crc, *data++);
    return crc;
}

/* Three runs of data side by side, as far as the shortest one goes; then each to its end. */
__attribute__((target("sse4.2"))) static void side_by_side(const uint8_t *data, const uint32_t *bytes, uint32_t *crcs)
{
    const uint8_t *second = data + bytes[0], *third = second + bytes[1];
    uint32_t shortest = bytes[0] < bytes[1] ? bytes[0] : bytes[1];
    shortest = shortest < bytes[2] ? shortest : bytes[2];
    uint64_t a = ~(uint32_t)0, b = a, c = a, word;
    uint32_t at = 0;
    for (; at + 8 <= shortest; at += 8) {
        memcpy(&word, data + at, 8);
        a = _mm_crc32_u64(a, word);
        memcpy(&word, second + at, 8);
        b = _mm_crc32_u64(b, word);
        memcpy(&word, third + at, 8);
        c = _mm_crc32_u64(c, word);
    }
    crcs[0] = ~by_instruction((uint32_t)a, data + at, bytes[0] - at);
    crcs[1] = ~by_instruction((uint32_t)b, second + at, bytes[1] - at);
    crcs[2] = ~by_instruction((uint32_t)c, third + at, bytes[2] - at);
}

static int has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
}
#else
#define by_instruction by_table

#define side_by_side(data, bytes, crcs) (void)0

static int has_instruction(void)
{
    return 0;
}
#endif

uint32_t binlog_crc32c(uint32_t crc, const uint8_t *data, size_t bytes)
{
    crc = ~crc;
    return ~(has_instruction() ? by_instruction(crc, data, bytes) : by_table(crc, data, bytes));
}

/* The CRCs of three runs that follow one another: in little more time than that of one, if they are short. */
void binlog_crc32c_three(const uint8_t *data, const uint32_t *bytes, uint32_t *crcs)
{
    if (has_instruction()) {
        side_by_side(data, bytes, crcs);
        return;
    }
    for (int i = 0; i < 3; data += bytes[i++])
        crcs[i] = ~by_table(~(uint32_t)0, data, bytes[i]);
}

/* The CRC of the last `bytes` of some data, from the CRC of it all and of what comes before them; or, for that is the same
 * sum, the CRC of it all from that of the last `bytes` and of what comes before them.
 *
 * With `bytes` zeros behind it, data has its CRC multiplied by x^(8 * bytes); and the CRC of two parts together is that of
 * the first so multiplied, plus that of the second (as in crc32_combine of zlib). */
uint32_t binlog_crc32c_rest(uint32_t whole, uint32_t first, uint64_t bytes)
{
    return first == 0 ? whole : whole ^ multiply(first, power_of(bytes));
}

/* What a CRC is changed by where one bit of the data is another, in a byte with so many behind it: bit i of it stands for
 * x^(7 - i), before 32 zero bits more. */
uint32_t binlog_crc32c_bit(uint8_t bit, uint64_t bytes_behind)
{
    uint32_t change = power_of(bytes_behind + 4);
    for (; bit < 0x80; bit = (uint8_t)(bit << 1))
        change = times_x(change);
    return change;
}
