/* Hashes of a tree of RFC 6962 (SHA-256), by the libcrypto that Python's hashlib has loaded.
 *
 * hashlib takes twice as long for a record of some hundred bytes, because it makes an object for each.  The functions are found
 * at run time, so the package needs no header and no library of OpenSSL; without a libcrypto they return None. */
#define _GNU_SOURCE
#include <Python.h>

#include "layout.h"

#include <dlfcn.h>
#include <endian.h>
#include <stdint.h>
#include <string.h>

enum { HASH_BYTES = 32, BLOCK_BYTES = 64, LEAF = 0, NODE = 1 };

/* SHA256_CTX of OpenSSL: 112 bytes, of which the first are the eight words of the state. */
struct context {
    uint32_t state[HASH_BYTES / 4];
    uint64_t others[28];
};

static struct {
    int is_known, is_there;
    struct context start;
    int (*init)(struct context *);
    int (*update)(struct context *, const void *, size_t);
} crypto;

/* Finds the functions; called with the interpreter's lock.  The two libraries have the same functions, and Python loads one.
 *
 * The newer functions, EVP_Digest*, take a fifth more time for a record of 500 bytes. */
static int find_crypto(void)
{
    static const char *const names[] = {"libcrypto.so.3", "libcrypto.so.1.1"};

    if (crypto.is_known)
        return crypto.is_there;
    crypto.is_known = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names && !crypto.is_there; i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (!library)
            continue;
        *(void **)&crypto.init = dlsym(library, "SHA256_Init");
        *(void **)&crypto.update = dlsym(library, "SHA256_Update");
        crypto.is_there = crypto.init && crypto.update;
    }
    if (crypto.is_there)
        crypto.init(&crypto.start);
    return crypto.is_there;
}

static void write_hash(const struct context *context, uint8_t *out)
{
    uint32_t words[HASH_BYTES / 4];

    for (int i = 0; i < HASH_BYTES / 4; i++)
        words[i] = htobe32(context->state[i]);
    memcpy(out, words, HASH_BYTES);
}

/* Adds the padding of a message to its last bytes, and returns the bytes of its last blocks.  blocks: room for two. */
static size_t pad(uint8_t *blocks, size_t bytes, uint64_t message_bytes)
{
    size_t padded = bytes + 1 + sizeof(uint64_t) <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    uint64_t bits = htobe64(message_bytes * 8);

    blocks[bytes] = 0x80;
    memset(blocks + bytes + 1, 0, padded - bytes - 1);
    memcpy(blocks + padded - sizeof bits, &bits, sizeof bits);
    return padded;
}

/* Pads the record here: libcrypto then gets whole blocks, keeps no bytes for its next call and clears none, which would take a
 * twentieth more time for a record of 500 bytes.  context: of any hash before. */
static void hash_leaf(struct context *context, const uint8_t *data, size_t bytes, uint8_t *out)
{
    enum { ROOM = BLOCK_BYTES - 1 }; /* in the first block, after the kind */
    uint8_t blocks[2 * BLOCK_BYTES];
    size_t left = bytes, at = 1;

    memcpy(context->state, crypto.start.state, HASH_BYTES);
    blocks[0] = LEAF;
    if (bytes >= ROOM) {
        memcpy(blocks + 1, data, ROOM);
        crypto.update(context, blocks, BLOCK_BYTES);
        left = (bytes - ROOM) % BLOCK_BYTES;
        crypto.update(context, data + ROOM, bytes - ROOM - left);
        at = 0;
    }
    memcpy(blocks + at, data + bytes - left, left);
    crypto.update(context, blocks, pad(blocks, at + left, bytes + 1));
    write_hash(context, out);
}

/* Hashes nodes, given the hashes of their children. */
static void hash_nodes(const uint8_t *children, Py_ssize_t count, uint8_t *out)
{
    enum { CHILDREN_BYTES = 2 * HASH_BYTES };
    uint8_t blocks[2 * BLOCK_BYTES] = {NODE};
    struct context context = crypto.start;

    pad(blocks, 1 + CHILDREN_BYTES, 1 + CHILDREN_BYTES);
    for (Py_ssize_t i = 0; i < count; i++) {
        memcpy(context.state, crypto.start.state, HASH_BYTES);
        memcpy(blocks + 1, children + i * CHILDREN_BYTES, CHILDREN_BYTES);
        crypto.update(&context, blocks, sizeof blocks);
        write_hash(&context, out + i * HASH_BYTES);
    }
}

/* hash_leaves(data, offsets): returns the leaf hash of each record of a batch, one after the other; None without a libcrypto.
 *
 * offsets: as of a Batch, uint32; record i is data[offsets[i] + 4 : offsets[i + 1]]. */
PyObject *binlog_hash_leaves(PyObject *module, PyObject *args)
{
    Py_buffer data, offsets;
    Py_ssize_t done = 0;

    (void)module;
    if (!find_crypto())
        Py_RETURN_NONE;
    if (!PyArg_ParseTuple(args, "y*y*:hash_leaves", &data, &offsets))
        return NULL;
    const uint32_t *bounds = offsets.buf;
    Py_ssize_t count = offsets.len / (Py_ssize_t)sizeof *bounds - 1;
    PyObject *hashes = PyBytes_FromStringAndSize(NULL, count > 0 ? count * HASH_BYTES : 0);
    if (hashes) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(hashes);
        struct context context = crypto.start;
        Py_BEGIN_ALLOW_THREADS
        for (; done < count; done++) {
            uint64_t start = (uint64_t)bounds[done] + RECORD_BYTES, end = bounds[done + 1];
            if (start > end || end > (uint64_t)data.len)
                break;
            hash_leaf(&context, (const uint8_t *)data.buf + start, end - start, out + done * HASH_BYTES);
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    if (hashes && done < count) {
        Py_DECREF(hashes);
        PyErr_SetString(PyExc_ValueError, "the offsets are not those of records in the data");
        return NULL;
    }
    return hashes;
}

/* hash_pairs(hashes): returns the parent of each two consecutive hashes; None without a libcrypto. */
PyObject *binlog_hash_pairs(PyObject *module, PyObject *args)
{
    Py_buffer hashes;

    (void)module;
    if (!find_crypto())
        Py_RETURN_NONE;
    if (!PyArg_ParseTuple(args, "y*:hash_pairs", &hashes))
        return NULL;
    Py_ssize_t count = hashes.len / (2 * HASH_BYTES);
    PyObject *parents = PyBytes_FromStringAndSize(NULL, count * HASH_BYTES);
    if (parents) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(parents);
        Py_BEGIN_ALLOW_THREADS
        hash_nodes(hashes.buf, count, out);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&hashes);
    return parents;
}
