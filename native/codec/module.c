/* The module binlog._codec: pure functions that convert bytes to values and back, and make no system calls.
 *
 * To add one: write it in the folder of its engine, name it below, and declare its types in binlog/_codec.pyi.
 */
#include <Python.h>

#include "typed_tuple.h"

/* clang-format off */
#define FUNCTIONS(F) \
    F(scan_records) F(frame_records) F(frame_values) F(unframe_values) F(some_record_starts_with) \
    F(build_ranges) F(verify_ranges) F(find_json_members) \
    F(pack_messages) F(stamp_messages) F(walk_messages) F(message_columns) \
    F(pack_journal) F(join_fragments) F(scan_journal_columns) F(gather_bodies) \
    F(journal_states) \
    F(scan_page) \
    F(pack_transaction) \
    F(hash_leaves) F(hash_pairs)
/* clang-format on */

#define DECLARATION(name) PyObject *binlog_##name(PyObject *module, PyObject *args);
#define ENTRY(name) {#name, binlog_##name, METH_VARARGS, NULL},

FUNCTIONS(DECLARATION)
DECLARATION(crc32_of)
DECLARATION(crc32c_of)

static PyMethodDef functions[] = {
    FUNCTIONS(ENTRY)
    {"crc32", binlog_crc32_of, METH_VARARGS, NULL},
    {"crc32c", binlog_crc32c_of, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

extern PyType_Spec group_state_spec;

static int add_types(PyObject *module)
{
    typed_tuple_setup();
    PyObject *type = PyType_FromSpec(&group_state_spec);
    int result = type ? PyModule_AddObjectRef(module, "GroupState", type) : -1;
    Py_XDECREF(type);
    return result;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_types}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "binlog._codec",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__codec(void)
{
    return PyModuleDef_Init(&module);
}
