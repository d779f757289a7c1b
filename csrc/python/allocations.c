/* _engine.Allocations: what processes count that were started with the preload object. */
#include "python/engine.h"

#include "process/allocations.h"

struct allocations_object {
    PyObject_HEAD struct gp_allocations *allocations;
};

static int allocations_init(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {NULL};
    struct allocations_object *self = (struct allocations_object *)object;
    struct gp_error err = {0};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, ":Allocations", names))
        return -1;
    if (self->allocations) {
        PyErr_SetString(PyExc_TypeError, "Allocations are made once");
        return -1;
    }
    if (gp_allocations_create(&self->allocations, &err)) {
        engine_raise(engine_state_of(object), &err);
        return -1;
    }
    return 0;
}

static void allocations_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    gp_allocations_destroy(((struct allocations_object *)object)->allocations);
    type->tp_free(object);
    Py_DECREF(type);
}

/* NULL with an exception in an object that came about without __init__. */
static struct gp_allocations *made(PyObject *object)
{
    struct gp_allocations *allocations = ((struct allocations_object *)object)->allocations;
    if (!allocations)
        PyErr_SetString(PyExc_ValueError, "the Allocations were not made");
    return allocations;
}

static PyObject *allocations_read(PyObject *object, PyObject *pid)
{
    struct gp_allocations *allocations = made(object);
    struct gp_allocation_counts counts;
    typedef unsigned long long u;
    uint32_t number;
    if (!allocations || !convert_u32(pid, &number))
        return NULL;
    if (!gp_allocations_read(allocations, (pid_t)number, &counts))
        Py_RETURN_NONE;
    return Py_BuildValue("{sKsKsKsK}", "mallocs", (u)counts.mallocs, "frees", (u)counts.frees,
                         "allocated_bytes", (u)counts.allocated_bytes, "freed_bytes", (u)counts.freed_bytes);
}

static PyObject *allocations_path(PyObject *object, void *unused)
{
    struct gp_allocations *allocations = made(object);
    return allocations ? PyUnicode_FromString(gp_allocations_path(allocations)) : NULL;
}

static PyObject *allocations_variable(PyObject *object, void *unused)
{
    return PyUnicode_FromString(gp_allocations_variable());
}

static PyMethodDef allocations_methods[] = {
    {"read", allocations_read, METH_O, "What a process has counted, or None."},
    {NULL},
};

static PyGetSetDef allocations_properties[] = {
    {"path", allocations_path, NULL, "Where a process finds the file, for the environment."},
    {"variable", allocations_variable, NULL, "The environment variable that holds it."},
    {NULL},
};

static PyType_Slot allocations_slots[] = {
    {Py_tp_doc, "A file that processes count their allocations in."},
    {Py_tp_init, allocations_init},
    {Py_tp_dealloc, allocations_dealloc},
    {Py_tp_methods, allocations_methods},
    {Py_tp_getset, allocations_properties},
    {0, NULL},
};

PyType_Spec allocations_spec = {
    .name = "grpcperf._engine.Allocations",
    .basicsize = sizeof(struct allocations_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = allocations_slots,
};
