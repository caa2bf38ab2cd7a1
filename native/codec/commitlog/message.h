/* Messages of a commit log: message.c packs them, walk.c goes through them, columns.c makes columns of one queue's. */
#ifndef BINLOG_MESSAGE_H
#define BINLOG_MESSAGE_H

#include <Python.h>
#include <stdint.h>

/* What RocketMQ's files say; binlog/format/commitlog/message.py has it all. */
#define MESSAGE_V1 0xDAA320A7u
#define MESSAGE_V2 0xDAA320ABu
#define MESSAGE_BLANK 0xCBD43194u
#define MESSAGE_TRANSACTION 12 /* bits of the system flag */
#define MESSAGE_PREPARED 4
#define MESSAGE_ROLLBACK 12
#define MESSAGE_BORN_HOST_V6 16
#define MESSAGE_STORE_HOST_V6 32
#define MESSAGE_IPV6_MORE 12
#define MESSAGE_CRC_NAME "__CRC32#\x01"
#define MESSAGE_CRC_NAME_BYTES 9
#define MESSAGE_CRC_DIGITS 10
#define MESSAGE_CRC_BYTES (MESSAGE_CRC_NAME_BYTES + MESSAGE_CRC_DIGITS + 1)

/* crc32.c */
uint32_t binlog_crc32(uint32_t crc, const uint8_t *data, size_t bytes);

/* The property that ends a message whose bytes before it are these. */
void message_crc_property(uint8_t *property, const uint8_t *message, size_t bytes);

/* What properties end with.  CRC_PART is what a power cut leaves of the property that has the CRC: some bytes, and zeros. */
enum crc_found { CRC_NONE, CRC_PART, CRC_WHOLE };
enum crc_found message_ends_with_crc(const uint8_t *properties, size_t bytes);

#endif
