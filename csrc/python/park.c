/* _engine.Park: calls held in flight. */
#include "python/engine.h"

#include <unistd.h>

#include "base/clock.h"
#include "load/park.h"

struct park_object {
    PyObject_HEAD struct gp_park *park;
    pid_t owner;
    int waiters;  /* threads inside the park with the GIL released */
    bool closing; /* close was called meanwhile: the last of them destroys it */
};

static const uint64_t slice_ns = 50 * GP_NS_PER_MS; /* as in run.c */

static int create(struct park_object *self, struct engine_state *state, const struct gp_park_opts *opts)
{
    struct gp_error err = {0};
    if (gp_park_create(&self->park, opts, &err)) {
        engine_raise(state, &err);
        return -1;
    }
    self->owner = getpid();
    return 0;
}

static int park_init(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"client", "request", "calls", "connect_timeout", NULL};
    struct park_object *self = (struct park_object *)object;
    struct engine_state *state = engine_state_of(object);
    struct gp_park_opts opts = {0};
    struct call_opts calls = {0};
    PyObject *client, *request;
    int status = -1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "$OOO&O&:Park", names, &client, &request, convert_u32,
                                     &calls.opts.max_in_flight, convert_seconds, &opts.connect_timeout_ns) ||
        engine_claim(state))
        return -1;
    if (self->park) {
        PyErr_SetString(PyExc_TypeError, "a Park is set up once");
        return -1;
    }
    if (!call_opts_init(&calls, client, request)) {
        calls.opts.request.parked = true;
        opts.client = calls.opts;
        status = create(self, state, &opts);
    }
    call_opts_fini(&calls);
    return status;
}

/* Cancels and joins. In a forked child its thread is not there to be joined. */
static void destroy(struct park_object *self)
{
    struct gp_park *park = self->park;
    if (self->waiters) {
        self->closing = true;
        return;
    }
    self->park = NULL;
    if (self->owner == getpid()) {
        Py_BEGIN_ALLOW_THREADS;
        gp_park_destroy(park);
        Py_END_ALLOW_THREADS;
    }
}

static void park_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    destroy((struct park_object *)object);
    type->tp_free(object);
    Py_DECREF(type);
}

static int check(PyObject *object)
{
    struct park_object *self = (struct park_object *)object;
    if (self->park && !self->closing)
        return engine_check_owner(engine_state_of(object), self->owner);
    PyErr_SetString(PyExc_ValueError, "the Park is closed");
    return -1;
}

static PyObject *park_start(PyObject *object, PyObject *unused)
{
    struct gp_error err = {0};
    if (check(object))
        return NULL;
    if (gp_park_start(((struct park_object *)object)->park, &err))
        return engine_raise(engine_state_of(object), &err);
    Py_RETURN_NONE;
}

static PyObject *park_open(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"calls", NULL};
    uint32_t calls;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&:open", names, convert_u32, &calls) || check(object))
        return NULL;
    gp_park_open(((struct park_object *)object)->park, calls);
    Py_RETURN_NONE;
}

static PyObject *park_counts(PyObject *object, PyObject *unused)
{
    struct gp_park_counts c;
    struct gp_error err = {0};
    typedef unsigned long long u;
    if (check(object))
        return NULL;
    struct gp_park *park = ((struct park_object *)object)->park;
    gp_park_counts(park, &c);
    if (c.failed && gp_park_error(park, &err))
        return engine_raise(engine_state_of(object), &err);
    return Py_BuildValue("{sOsIsKsKsNsdsd}", "connecting", c.connecting ? Py_True : Py_False, "connected",
                         (unsigned)c.connected, "sent", (u)c.sent, "finished", (u)c.finished, "status",
                         classes_to_python(c.classes), "first_sent_s", seconds(c.first_sent_ns),
                         "last_finished_s", seconds(c.last_finished_ns));
}

static PyObject *park_cancel(PyObject *object, PyObject *unused)
{
    if (check(object))
        return NULL;
    gp_park_cancel(((struct park_object *)object)->park);
    Py_RETURN_NONE;
}

static bool wait_slice(struct park_object *self, uint64_t timeout_ns)
{
    bool finished;
    self->waiters++;
    Py_BEGIN_ALLOW_THREADS;
    finished = gp_park_wait_finished(self->park, timeout_ns < slice_ns ? timeout_ns : slice_ns);
    Py_END_ALLOW_THREADS;
    if (!--self->waiters && self->closing)
        destroy(self);
    return finished;
}

static PyObject *park_wait_finished(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    uint64_t timeout_ns;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&:wait_finished", names, convert_seconds, &timeout_ns))
        return NULL;
    uint64_t until_ns = gp_clock_now_ns() + timeout_ns;
    while (!check(object)) { /* another thread may close it between two slices */
        uint64_t now_ns = gp_clock_now_ns();
        uint64_t left_ns = now_ns < until_ns ? until_ns - now_ns : 0;
        bool finished = wait_slice((struct park_object *)object, left_ns);
        if (PyErr_CheckSignals())
            return NULL;
        if (finished || left_ns <= slice_ns)
            return PyBool_FromLong(finished);
    }
    return NULL;
}

static PyObject *park_close(PyObject *object, PyObject *unused)
{
    destroy((struct park_object *)object);
    Py_RETURN_NONE;
}

static PyMethodDef park_methods[] = {
    {"start", park_start, METH_NOARGS, "Start its thread, which connects."},
    {"open", (PyCFunction)(void (*)(void))park_open, METH_VARARGS | METH_KEYWORDS,
     "Have so many calls in all; only ever more."},
    {"counts", park_counts, METH_NOARGS, "What was sent and what has ended."},
    {"cancel", park_cancel, METH_NOARGS, "Cancel every call; returns at once."},
    {"wait_finished", (PyCFunction)(void (*)(void))park_wait_finished, METH_VARARGS | METH_KEYWORDS,
     "Whether every call has ended."},
    {"close", park_close, METH_NOARGS, "Cancel and join."},
    {NULL},
};

static PyType_Slot park_slots[] = {
    {Py_tp_doc, "Calls held in flight."},
    {Py_tp_init, park_init},
    {Py_tp_dealloc, park_dealloc},
    {Py_tp_methods, park_methods},
    {0, NULL},
};

PyType_Spec park_spec = {
    .name = "grpcperf._engine.Park",
    .basicsize = sizeof(struct park_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = park_slots,
};
