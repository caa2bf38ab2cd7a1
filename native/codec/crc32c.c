/* CRC-32C (Castagnoli), RFC 3720 appendix B.4, by the processor's instruction if it has one, else by a table.
 *
 * The tables and powers are computed when the module loads, before another thread can call.
 */
#include "codec.h"

#include "crc_table.h"

#include <string.h>

#define POLYNOMIAL 0x82F63B78u /* reflected */

static uint32_t table[256];

static uint32_t by_table(uint32_t crc, const uint8_t *data, size_t bytes)
{
    return crc_by_table(table, crc, data, bytes);
}

/* Multiplies a polynomial by x.  Polynomials are modulo that of the CRC, and reflected: bit 31 is x^0. */
static uint32_t times_x(uint32_t a)
{
    return (a >> 1) ^ (a & 1 ? POLYNOMIAL : 0);
}

/* Multiplies two polynomials. */
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

/* squares[i] is x^(8 * 2^i); small_powers[i] is x^(8 * i). */
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

/* x^(8 * bytes), the factor by which that number of zeros after the data multiplies a CRC. */
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
#include <wmmintrin.h>

/* The instruction takes three cycles, and one can start in each cycle, so three parts of the data are processed at once. */
#define LARGE_PART ((size_t)4096)
#define SMALL_PART ((size_t)128)

/* The factors for the CRC of a part that one or two parts follow. */
struct step {
    uint32_t one, two;
};
static struct step large_step, small_step;

/* x^(8 * bytes - 33).  A carry-less product of two reflected factors is one bit short, and the CRC instruction, which reduces
 * it modulo the polynomial, multiplies it by x^32. */
static uint32_t factor_for(uint64_t bytes)
{
    uint32_t factor = power_of(bytes - 4);
    return (factor << 1) ^ (factor >> 31 ? (POLYNOMIAL << 1) | 1 : 0); /* divided by x */
}

__attribute__((constructor)) static void build_steps(void)
{
    large_step = (struct step){factor_for(LARGE_PART), factor_for(2 * LARGE_PART)};
    small_step = (struct step){factor_for(SMALL_PART), factor_for(2 * SMALL_PART)};
}

__attribute__((target("sse4.2,pclmul"))) static inline uint32_t carried(uint64_t crc, uint32_t factor)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi64_si128((int64_t)factor), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) static inline uint32_t three_parts(uint32_t crc, const uint8_t *data,
                                                                            size_t part_bytes, const struct step *step)
{
    uint64_t first = crc, second = 0, third = 0, word;
    for (const uint8_t *end = data + part_bytes; data < end; data += 8) {
        memcpy(&word, data, 8);
        first = _mm_crc32_u64(first, word);
        memcpy(&word, data + part_bytes, 8);
        second = _mm_crc32_u64(second, word);
        memcpy(&word, data + 2 * part_bytes, 8);
        third = _mm_crc32_u64(third, word);
    }
    return carried(first, step->two) ^ carried(second, step->one) ^ (uint32_t)third;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *data, size_t bytes)
{
    for (; bytes >= 3 * LARGE_PART; data += 3 * LARGE_PART, bytes -= 3 * LARGE_PART)
        crc = three_parts(crc, data, LARGE_PART, &large_step);
    for (; bytes >= 3 * SMALL_PART; data += 3 * SMALL_PART, bytes -= 3 * SMALL_PART)
        crc = three_parts(crc, data, SMALL_PART, &small_step);
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

static int has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}
#else
#define by_instruction by_table

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

/* The CRC of the last `bytes` of some data.  whole: the CRC of all the data.  first: the CRC of the bytes before the last ones.
 *
 * The sum is its own inverse, so this also returns the CRC of all the data, if `whole` is that of the last `bytes`.
 * Appending `bytes` zeros to data multiplies its CRC by x^(8 * bytes), and the CRC of two parts is that product for the first
 * plus the CRC of the second (as in crc32_combine of zlib). */
uint32_t binlog_crc32c_rest(uint32_t whole, uint32_t first, uint64_t bytes)
{
    return first == 0 ? whole : whole ^ multiply(first, power_of(bytes));
}
