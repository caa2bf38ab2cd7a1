/* The module binlog._calls: functions that make system calls and take or return Python objects, and the types of such calls.
 *
 * It shares a library with cffi's module binlog._native, so that both use one table of descriptors and one count of forks.
 *
 * To add a function: write it in the folder of its engine, name it below, and declare its types in binlog/_calls.pyi.
 * README.md says what is in each folder.
 */
#include <Python.h>

#include "binlog.h"
#include "guard.h"
#include "page.h"
#include "typed_tuple.h"

#include <errno.h>

/* clang-format off */
#define FUNCTIONS(F) \
    F(read_records) F(wait_and_read) F(refresh_and_read) F(read_published) \
    F(select_messages) F(read_cached) F(store_mapped) \
    F(write_gil_held) F(write_delivery)
/* clang-format on */

#define DECLARATION(name) PyObject *binlog_##name(PyObject *module, PyObject *args);
#define ENTRY(name) {#name, binlog_##name, METH_VARARGS, NULL},

FUNCTIONS(DECLARATION)
DECLARATION(fork_generation_now)

static PyMethodDef functions[] = {
    FUNCTIONS(ENTRY)
    {"fork_generation", binlog_fork_generation_now, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject *page_writer_type, *guard_type, *change_type, *commit_wait_type;
extern PyType_Spec batch_iterator_spec, fast_path_spec, page_writer_spec, page_acks_spec, guard_spec, change_spec,
    commit_group_spec, commit_wait_spec, monitor_spec, call_guard_spec;
int fast_path_setup(void);

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);

    if (type && PyModule_AddType(module, type) != 0)
        Py_CLEAR(type);
    return type;
}

static int fill(PyObject *module)
{
    int failed = -binlog_fork_setup();

    if (failed) {
        errno = failed;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    typed_tuple_setup();
    return (page_writer_type = add_type(module, &page_writer_spec)) && (guard_type = add_type(module, &guard_spec)) &&
                   (change_type = add_type(module, &change_spec)) && (commit_wait_type = add_type(module, &commit_wait_spec)) &&
                   add_type(module, &commit_group_spec) && add_type(module, &monitor_spec) && add_type(module, &call_guard_spec) &&
                   add_type(module, &page_acks_spec) && add_type(module, &batch_iterator_spec) && add_type(module, &fast_path_spec) && fast_path_setup() == 0
               ? 0
               : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "binlog._calls",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__calls(void)
{
    return PyModuleDef_Init(&module);
}
