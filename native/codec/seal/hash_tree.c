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
    int (*final)(uint8_t *, struct context *);
    void (*transform)(struct context *, const uint8_t *);
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
        *(void **)&crypto.final = dlsym(library, "SHA256_Final");
        *(void **)&crypto.transform = dlsym(library, "SHA256_Transform");
        crypto.is_there = crypto.init && crypto.update && crypto.final && crypto.transform;
    }
    if (crypto.is_there)
        crypto.init(&crypto.start);
    return crypto.is_there;
}

static void hash_leaf(const uint8_t *data, size_t bytes, uint8_t *out)
{
    struct context context = crypto.start;
    uint8_t kind = LEAF;

    crypto.update(&context, &kind, 1);
    crypto.update(&context, data, bytes);
    crypto.final(out, &context);
}

/* Hashes nodes, given the hashes of their children.
 *
 * The 65 bytes of a node, padded, are two blocks of which most bytes are always the same.  Calls of update and final would pad each
 * node again, and take a quarter more time. */
static void hash_nodes(const uint8_t *children, Py_ssize_t count, uint8_t *out)
{
    enum { NODE_BYTES = 1 + 2 * HASH_BYTES };
    uint8_t blocks[2 * BLOCK_BYTES] = {[0] = NODE, [NODE_BYTES] = 0x80};
    uint32_t words[HASH_BYTES / 4];
    struct context context = crypto.start;

    blocks[2 * BLOCK_BYTES - 2] = NODE_BYTES * 8 >> 8; /* the length in bits, big-endian, is at the end */
    blocks[2 * BLOCK_BYTES - 1] = NODE_BYTES * 8 & 0xff;
    for (Py_ssize_t i = 0; i < count; i++) {
        memcpy(blocks + 1, children + i * 2 * HASH_BYTES, 2 * HASH_BYTES);
        memcpy(context.state, crypto.start.state, HASH_BYTES);
        crypto.transform(&context, blocks);
        crypto.transform(&context, blocks + BLOCK_BYTES);
        for (int word = 0; word < HASH_BYTES / 4; word++)
            words[word] = htobe32(context.state[word]);
        memcpy(out + i * HASH_BYTES, words, HASH_BYTES);
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
        Py_BEGIN_ALLOW_THREADS
        for (; done < count; done++) {
            uint64_t start = (uint64_t)bounds[done] + RECORD_BYTES, end = bounds[done + 1];
            if (start > end || end > (uint64_t)data.len)
                break;
            hash_leaf((const uint8_t *)data.buf + start, end - start, out + done * HASH_BYTES);
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
