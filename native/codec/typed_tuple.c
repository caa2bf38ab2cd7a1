/* Tuples of a given type, made without calling the type, which would take as long as everything else of a record. */
#include "typed_tuple.h"

static newfunc tuple_new;
static int items_only; /* whether a tuple of this version of Python has its items and no other fields */

void typed_tuple_setup(void)
{
    tuple_new = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    items_only = Py_Version < 0x030E0000;
}

/* Moves the values to a tuple, or releases them if there is none. */
static void fill(PyObject *tuple, PyObject **values, Py_ssize_t count)
{
    for (Py_ssize_t at = 0; at < count; at++)
        if (tuple)
            PyTuple_SetItem(tuple, at, values[at]);
        else
            Py_XDECREF(values[at]);
}

/* Makes one by tuple's constructor, for any version of Python. */
static PyObject *made_by_constructor(PyObject *type, PyObject **values, Py_ssize_t count)
{
    PyObject *made = NULL, *plain = PyTuple_New(count);
    fill(plain, values, count);
    PyObject *args = plain ? PyTuple_Pack(1, plain) : NULL;
    if (args)
        made = tuple_new((PyTypeObject *)type, args, NULL);
    Py_XDECREF(args);
    Py_XDECREF(plain);
    return made;
}

/* Makes one in half the time, for versions up to 3.13, whose tuples have only their items.  (3.14 added a hash that the
 * constructor sets.) */
static PyObject *made_directly(PyObject *type, PyObject **values, Py_ssize_t count)
{
    PyObject *made = PyType_GenericAlloc((PyTypeObject *)type, count);
    fill(made, values, count);
    return made;
}

/* Whether only the caller has a reference to the tuple, so that its items may be replaced, as zip() does. */
int tuple_is_unshared(PyObject *made)
{
    return items_only && Py_REFCNT(made) == 1;
}

/* A new tuple of `type`; takes over the references to the values, also if it fails, and fails if one of them is NULL. */
PyObject *typed_tuple(PyObject *type, PyObject **values, Py_ssize_t count)
{
    for (Py_ssize_t at = 0; at < count; at++)
        if (!values[at]) {
            fill(NULL, values, count);
            return NULL;
        }
    return items_only ? made_directly(type, values, count) : made_by_constructor(type, values, count);
}

PyObject *pair_tuple(PyObject *type, PyObject *first, PyObject *second)
{
    return typed_tuple(type, (PyObject *[]){first, second}, 2);
}
