/* Writing the operation that a busy member appends for each message; binlog/format/consumers/operation.py writes the others. */
#include <Python.h>

#include "big_endian.h"
#include "codec.h"
#include "group_apply.h"
#include "layout.h"

#include <string.h>

#define MAGIC 0xB147
#define VERSION 1

static uint8_t *put_section(uint8_t *at, int kind)
{
    at[GROUP_SECTION_KIND] = (uint8_t)kind;
    at[GROUP_SECTION_RESERVED] = 0;
    put_u16(at + GROUP_SECTION_COUNT, 1);
    return at + GROUP_SECTION_BYTES;
}

PyObject *group_pack_step(uint32_t seed, const struct step *step)
{
    uint8_t record[GROUP_OPERATION_BYTES + 2 * GROUP_SECTION_BYTES + GROUP_DELIVERY_BYTES + GROUP_SEQUENCE_BYTES] = {0};
    uint8_t *at = record + GROUP_OPERATION_BYTES;

    put_u16(record + GROUP_OPERATION_MAGIC, MAGIC);
    record[GROUP_OPERATION_VERSION] = VERSION;
    put_u16(record + GROUP_OPERATION_SEAT, step->seat);
    put_u16(record + GROUP_OPERATION_WANT, step->want);
    put_u32(record + GROUP_OPERATION_GENERATION, step->generation);
    put_u32(record + GROUP_OPERATION_NUMBER, step->number);
    put_u64(record + GROUP_OPERATION_GROUP_TIME_NS, step->time_ns);
    put_u32(record + GROUP_OPERATION_EPOCH, step->epoch);
    at = put_section(at, DONE);
    put_u64(at + GROUP_DELIVERY_SEQUENCE, step->done);
    put_u32(at + GROUP_DELIVERY_DELIVERY, step->delivery);
    at = put_section(at + GROUP_DELIVERY_BYTES, START);
    put_u64(at + GROUP_SEQUENCE_SEQUENCE, step->start);
    at += GROUP_SEQUENCE_BYTES;

    uint32_t crc = binlog_crc32c(seed, record, GROUP_OPERATION_CRC);
    crc = binlog_crc32c(crc, record + GROUP_OPERATION_BYTES, (size_t)(at - record) - GROUP_OPERATION_BYTES);
    put_u32(record + GROUP_OPERATION_CRC, crc);
    return PyBytes_FromStringAndSize((const char *)record, at - record);
}
