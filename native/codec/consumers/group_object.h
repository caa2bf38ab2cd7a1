/* The object of the type GroupState, and the functions with which Python asks for its values. */
#ifndef BINLOG_GROUP_OBJECT_H
#define BINLOG_GROUP_OBJECT_H

#include <Python.h>

#include "group_apply.h"

struct group_object {
    PyObject_HEAD
    struct effect_types types;
    uint32_t seed;
    int is_broken; /* an operation was applied in part: memory ran out */
    struct group_state state;
};

/* Returns the state; NULL with an exception if an operation was applied in part. */
struct group_state *group_usable(PyObject *object);

PyObject *group_floor_of(PyObject *object, void *unused);
PyObject *group_available_of(PyObject *object, void *unused);
PyObject *group_next_due(PyObject *object, void *unused);
PyObject *group_clock_of(PyObject *object, PyObject *unused);
PyObject *group_clock_offset(PyObject *object, PyObject *boot);
PyObject *group_started_by(PyObject *object, PyObject *args);
PyObject *group_item_of(PyObject *object, PyObject *sequence);
PyObject *group_items_of(PyObject *object, PyObject *unused);
PyObject *group_members_of(PyObject *object, PyObject *unused);
PyObject *group_last_generation(PyObject *object, PyObject *seat);
PyObject *group_counters_of(PyObject *object, PyObject *unused);
PyObject *group_settings_of(PyObject *object, PyObject *unused);
PyObject *group_witness_of(PyObject *object, void *unused);

#endif
