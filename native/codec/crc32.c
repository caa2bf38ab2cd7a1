/* CRC-32 (ISO 3309, as in zlib), for RocketMQ's files, by carry-less multiplication if the processor supports it.
 *
 * The algorithm is from Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel
 * 2009: fold the data, 64 bytes at a time, to 16 bytes with the same remainder, fold those to 8 and to 4, and finish with
 * Barrett's reduction.  zlib's function takes a multiple of the time, and each message has two CRCs.
 */
#include "message.h"

#include "crc_table.h"

#define POLYNOMIAL 0xEDB88320u /* reflected */

static uint32_t table[256];

__attribute__((constructor)) static void build_table(void)
{
    crc_table_build(table, POLYNOMIAL);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define BLOCK_BYTES 64
#define WORD_BYTES 16

/* The two constants of a step: powers of x modulo the polynomial, reflected, from the paper. */
#define STEP(high, low) _mm_set_epi64x((int64_t)(high), (int64_t)(low))
#define FOLD_64_BYTES STEP(0x01C6E41596, 0x0154442BD4)
#define FOLD_16_BYTES STEP(0x00CCAA009E, 0x01751997D0)
#define FOLD_8_BYTES STEP(0, 0x0163CD6124)
#define REDUCE STEP(0x01F7011641, 0x01DB710641)

__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i sum, __m128i step, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(sum, step, 0x00), high = _mm_clmulepi64_si128(sum, step, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul,sse4.1"))) static inline __m128i load(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

/* Reduces 16 bytes to the CRC. */
__attribute__((target("pclmul,sse4.1"))) static inline uint32_t reduce(__m128i sum)
{
    const __m128i halves = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i high;

    sum = _mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, FOLD_16_BYTES, 0x10));
    high = _mm_srli_si128(sum, 4);
    sum = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(sum, halves), FOLD_8_BYTES, 0x00), high);
    high = _mm_clmulepi64_si128(_mm_and_si128(sum, halves), REDUCE, 0x10);
    high = _mm_clmulepi64_si128(_mm_and_si128(high, halves), REDUCE, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(sum, high), 1);
}

/* Continues a CRC over the whole words of the data.  bytes: at least one block. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t by_multiplying(uint32_t crc, const uint8_t *data, size_t bytes)
{
    __m128i sums[4];

    for (int i = 0; i < 4; i++)
        sums[i] = load(data + WORD_BYTES * i);
    sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128((int)crc));
    for (data += BLOCK_BYTES, bytes -= BLOCK_BYTES; bytes >= BLOCK_BYTES; data += BLOCK_BYTES, bytes -= BLOCK_BYTES)
        for (int i = 0; i < 4; i++)
            sums[i] = fold(sums[i], FOLD_64_BYTES, load(data + WORD_BYTES * i));
    for (int i = 1; i < 4; i++)
        sums[i] = fold(sums[i - 1], FOLD_16_BYTES, sums[i]);
    for (; bytes >= WORD_BYTES; data += WORD_BYTES, bytes -= WORD_BYTES)
        sums[3] = fold(sums[3], FOLD_16_BYTES, load(data));
    return reduce(sums[3]);
}

static int multiplies(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#endif

/* Continues a CRC over `data`; starts from 0. */
uint32_t binlog_crc32(uint32_t crc, const uint8_t *data, size_t bytes)
{
    size_t done = 0;

    crc = ~crc;
#if defined(__x86_64__)
    if (bytes >= BLOCK_BYTES && multiplies()) {
        done = bytes - bytes % WORD_BYTES;
        crc = by_multiplying(crc, data, done);
    }
#endif
    return ~crc_by_table(table, crc, data + done, bytes - done);
}
