/* Hashes of a tree of RFC 6962 (SHA-256), by the libcrypto that Python's hashlib has loaded.
 *
 * hashlib takes twice as long for a record of some hundred bytes, because it makes an object for each.  The functions are found
 * at run time, so the package needs no header and no library of OpenSSL; without a libcrypto they return None. */
#define _GNU_SOURCE
#include <Python.h>

#include "layout.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

enum { HASH_BYTES = 32, LEAF = 0, NODE = 1 };

/* SHA256_CTX of OpenSSL has 112 bytes. */
struct context {
    uint64_t words[32];
};

static struct {
    int is_known, is_there;
    int (*init)(struct context *);
    int (*update)(struct context *, const void *, size_t);
    int (*final)(uint8_t *, struct context *);
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
        crypto.is_there = crypto.init && crypto.update && crypto.final;
    }
    return crypto.is_there;
}

static void hash(uint8_t kind, const uint8_t *data, size_t bytes, uint8_t *out)
{
    struct context context;

    crypto.init(&context);
    crypto.update(&context, &kind, 1);
    crypto.update(&context, data, bytes);
    crypto.final(out, &context);
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
            hash(LEAF, (const uint8_t *)data.buf + start, end - start, out + done * HASH_BYTES);
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
        const uint8_t *in = hashes.buf;
        uint8_t *out = (uint8_t *)PyBytes_AsString(parents);
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < count; i++)
            hash(NODE, in + i * 2 * HASH_BYTES, 2 * HASH_BYTES, out + i * HASH_BYTES);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&hashes);
    return parents;
}
