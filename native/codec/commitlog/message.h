/* Messages of a commit log: message.c packs them, walk.c walks through them, columns.c makes columns of those of one queue. */
#ifndef BINLOG_MESSAGE_H
#define BINLOG_MESSAGE_H

#include <Python.h>
#include <stdint.h>

/* Constants of RocketMQ's format; binlog/format/commitlog/message.py has all of it. */
#define MESSAGE_V1 0xDAA320A7u
#define MESSAGE_V2 0xDAA320ABu
#define MESSAGE_BLANK 0xCBD43194u
#define MESSAGE_TRANSACTION 12 /* bits of the system flag */
#define MESSAGE_PREPARED 4
#define MESSAGE_ROLLBACK 12
#define MESSAGE_BORN_HOST_V6 16
#define MESSAGE_STORE_HOST_V6 32
#define MESSAGE_IPV6_EXTRA 12
#define MESSAGE_CRC_NAME "__CRC32#\x01"
#define MESSAGE_CRC_NAME_BYTES 9
#define MESSAGE_CRC_DIGITS 10
#define MESSAGE_CRC_BYTES (MESSAGE_CRC_NAME_BYTES + MESSAGE_CRC_DIGITS + 1)

/* crc32.c */
uint32_t binlog_crc32(uint32_t crc, const uint8_t *data, size_t bytes);

/* Write the property with the CRC of the first `bytes` of a message. */
void message_crc_property(uint8_t *property, const uint8_t *message, size_t bytes);

/* How properties end.  CRC_PART: with a remnant of the CRC property after a power cut, some of its bytes and zeros. */
enum crc_state { CRC_NONE, CRC_PART, CRC_WHOLE };
enum crc_state message_ends_with_crc(const uint8_t *properties, size_t bytes);

#endif
