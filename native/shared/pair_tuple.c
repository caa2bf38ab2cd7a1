/* Tuples of two of a given type, made without calling the type, which would take as long as everything else of a record. */
#include "pair_tuple.h"

static newfunc tuple_new;
static int items_only; /* whether a tuple of this version of Python has its items and no other fields */

void pair_tuple_setup(void)
{
    tuple_new = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    items_only = Py_Version < 0x030E0000;
}

/* Makes one by tuple's constructor, for any version of Python. */
static PyObject *made_by_constructor(PyObject *type, PyObject *first, PyObject *second)
{
    PyObject *made = NULL, *values = PyTuple_Pack(2, first, second);
    PyObject *args = values ? PyTuple_Pack(1, values) : NULL;
    if (args)
        made = tuple_new((PyTypeObject *)type, args, NULL);
    Py_XDECREF(args);
    Py_XDECREF(values);
    Py_DECREF(first);
    Py_DECREF(second);
    return made;
}

/* Makes one in half the time, for versions up to 3.13, whose tuples have only their items.  (3.14 added a hash that the
 * constructor sets.) */
static PyObject *made_directly(PyObject *type, PyObject *first, PyObject *second)
{
    PyObject *made = PyType_GenericAlloc((PyTypeObject *)type, 2);
    if (!made) {
        Py_DECREF(first);
        Py_DECREF(second);
        return NULL;
    }
    PyTuple_SetItem(made, 0, first);
    PyTuple_SetItem(made, 1, second);
    return made;
}

/* Whether only the caller has a reference to the tuple, so that its items may be replaced, as zip() does. */
int pair_tuple_is_unshared(PyObject *made)
{
    return items_only && Py_REFCNT(made) == 1;
}

/* A new tuple of `type`; takes over the references to both values, also if it fails. */
PyObject *pair_tuple(PyObject *type, PyObject *first, PyObject *second)
{
    if (!first || !second) {
        Py_XDECREF(first);
        Py_XDECREF(second);
        return NULL;
    }
    return items_only ? made_directly(type, first, second) : made_by_constructor(type, first, second);
}
