/* Messages of a commit log, for what makes Python objects of them: message.c packs, mapped_store.c stores,
 * cached_read.c reads, walk.c goes through them; pick.c and columns.c read those of one queue. */
#ifndef BINLOG_MESSAGE_H
#define BINLOG_MESSAGE_H

#include <Python.h>

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

/* The property that ends a message whose bytes before it are these. */
void message_crc_property(uint8_t *property, const uint8_t *message, size_t bytes);

/* What properties end with.  CRC_PART is what a power cut leaves of the property that has the CRC: some bytes, and zeros. */
enum crc_found { CRC_NONE, CRC_PART, CRC_WHOLE };
enum crc_found message_ends_with_crc(const uint8_t *properties, size_t bytes);

PyObject *binlog_pack_messages(PyObject *module, PyObject *args);
PyObject *binlog_stamp_messages(PyObject *module, PyObject *args);
PyObject *binlog_walk_messages(PyObject *module, PyObject *args);
PyObject *binlog_read_cached(PyObject *module, PyObject *args);
PyObject *binlog_connect_mapped(PyObject *module, PyObject *args);
PyObject *binlog_store_mapped(PyObject *module, PyObject *args);
PyObject *binlog_pick_messages(PyObject *module, PyObject *args);
PyObject *binlog_message_columns(PyObject *module, PyObject *args);

#endif
