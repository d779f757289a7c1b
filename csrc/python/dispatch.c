/* _engine.Dispatch: messages of many writers handed to a few streams. */
#include "python/engine.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "load/dispatch.h"

struct dispatch_object {
    PyObject_HEAD struct gp_dispatch *dispatch;
    pid_t owner;
    bool started;
    int waiters; /* threads inside with the GIL released */
};

static const uint64_t slice_ns = 50 * GP_NS_PER_MS; /* as in run.c */

/* --- create ------------------------------------------------------------------------------------ */

static int parse_policy(const char *name, enum gp_dispatch_policy *policy)
{
    if (strcmp(name, "round_robin") == 0)
        *policy = GP_DISPATCH_ROUND_ROBIN;
    else if (strcmp(name, "shared") == 0)
        *policy = GP_DISPATCH_SHARED;
    else {
        PyErr_Format(PyExc_ValueError, "policy \"%s\" is not known", name);
        return -1;
    }
    return 0;
}

/* A tuple of (client, request) for each stream. */
static int parse_streams(PyObject *streams, struct call_opts *calls, struct gp_client_opts *opts)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(streams); i++) {
        PyObject *client, *request, *stream = PyTuple_GET_ITEM(streams, i);
        if (!PyTuple_Check(stream)) {
            PyErr_SetString(PyExc_TypeError, "a stream is a tuple of a client and a request");
            return -1;
        }
        if (!PyArg_ParseTuple(stream, "OO:stream", &client, &request) ||
            call_opts_init(&calls[i], client, request))
            return -1;
        opts[i] = calls[i].opts;
    }
    return 0;
}

static int create(struct dispatch_object *self, struct engine_state *state, PyObject *streams,
                  struct gp_dispatch_opts *opts)
{
    size_t count = opts->stream_count;
    struct call_opts *calls = PyMem_Calloc(count + 1, sizeof *calls);
    struct gp_client_opts *clients = PyMem_Calloc(count + 1, sizeof *clients);
    struct gp_error err = {0};
    int status = -1;
    if (!calls || !clients) {
        PyErr_NoMemory();
    } else if (!parse_streams(streams, calls, clients)) {
        opts->streams = clients;
        status = gp_dispatch_create(&self->dispatch, opts, &err);
        if (status)
            engine_raise(state, &err);
        self->owner = getpid();
    }
    for (size_t i = 0; calls && i < count; i++)
        call_opts_fini(&calls[i]);
    PyMem_Free(calls);
    PyMem_Free(clients);
    return status;
}

static int dispatch_init(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"streams",        "policy",          "buffer",     "writers",
                            "writer_threads", "period",          "duration",   "timeout",
                            "drain",          "connect_timeout", "seed",       "replay_idle",
                            "replay_at_end",  "directory",       "sync_every", NULL};
    struct dispatch_object *self = (struct dispatch_object *)object;
    struct engine_state *state = engine_state_of(object);
    struct gp_dispatch_opts opts = {0};
    PyObject *streams;
    const char *policy;
    int idle, at_end;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "$O!sO&O&O&O&O&O&O&O&O&ppsO&:Dispatch", names,
                                     &PyTuple_Type, &streams, &policy, convert_u32, &opts.buffer, convert_u32,
                                     &opts.writers, convert_u32, &opts.writer_threads, convert_seconds,
                                     &opts.period_ns, convert_seconds, &opts.duration_ns, convert_seconds,
                                     &opts.timeout_ns, convert_seconds, &opts.drain_ns, convert_seconds,
                                     &opts.connect_timeout_ns, convert_u64, &opts.seed, &idle, &at_end,
                                     &opts.spill.directory, convert_u32, &opts.spill.sync_every) ||
        parse_policy(policy, &opts.policy) || engine_claim(state))
        return -1;
    if (self->dispatch) {
        PyErr_SetString(PyExc_TypeError, "a Dispatch is set up once");
        return -1;
    }
    opts.stream_count = (uint32_t)PyTuple_GET_SIZE(streams);
    opts.replay_idle = idle;
    opts.replay_at_end = at_end;
    return create(self, state, streams, &opts);
}

/* --- methods ----------------------------------------------------------------------------------- */

static int check(PyObject *object)
{
    struct dispatch_object *self = (struct dispatch_object *)object;
    if (self->dispatch)
        return engine_check_owner(engine_state_of(object), self->owner);
    PyErr_SetString(PyExc_ValueError, "the Dispatch is closed");
    return -1;
}

static PyObject *dispatch_start(PyObject *object, PyObject *unused)
{
    struct dispatch_object *self = (struct dispatch_object *)object;
    struct gp_error err = {0};
    if (check(object))
        return NULL;
    if (self->started) {
        PyErr_SetString(PyExc_ValueError, "a Dispatch is started once");
        return NULL;
    }
    self->started = true;
    if (gp_dispatch_start(self->dispatch, &err))
        return engine_raise(engine_state_of(object), &err);
    Py_RETURN_NONE;
}

static PyObject *dispatch_stop(PyObject *object, PyObject *unused)
{
    if (check(object))
        return NULL;
    gp_dispatch_stop(((struct dispatch_object *)object)->dispatch);
    Py_RETURN_NONE;
}

static bool wait_slice(struct dispatch_object *self, uint64_t timeout_ns)
{
    bool finished;
    self->waiters++;
    Py_BEGIN_ALLOW_THREADS;
    finished = gp_dispatch_wait_finished(self->dispatch, timeout_ns < slice_ns ? timeout_ns : slice_ns);
    Py_END_ALLOW_THREADS;
    self->waiters--;
    return finished;
}

static PyObject *dispatch_wait(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    uint64_t timeout_ns;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&:wait", names, convert_seconds, &timeout_ns))
        return NULL;
    uint64_t until_ns = gp_clock_now_ns() + timeout_ns;
    while (!check(object)) {
        uint64_t now_ns = gp_clock_now_ns();
        uint64_t left_ns = now_ns < until_ns ? until_ns - now_ns : 0;
        bool finished = wait_slice((struct dispatch_object *)object, left_ns);
        if (PyErr_CheckSignals())
            return NULL;
        if (finished || left_ns <= slice_ns)
            return PyBool_FromLong(finished);
    }
    return NULL;
}

static int set_count(PyObject *dict, const char *key, uint64_t count)
{
    return convert_set(dict, key, PyLong_FromUnsignedLongLong(count));
}

static int add_spill(PyObject *dict, const struct gp_spill_stats *s)
{
    return set_count(dict, "waiting", s->waiting) || set_count(dict, "recovered", s->recovered) ||
           set_count(dict, "cut_bytes", s->cut_bytes) || set_count(dict, "appended", s->appended) ||
           set_count(dict, "appended_bytes", s->appended_bytes) || set_count(dict, "refused", s->refused) ||
           set_count(dict, "syncs", s->syncs) ||
           convert_set(dict, "sync_s", PyFloat_FromDouble(seconds(s->sync_ns)));
}

static int add_counts(PyObject *dict, const struct gp_dispatch_result *r)
{
    return set_count(dict, "first_sequence", r->first_sequence) || set_count(dict, "sent", r->sent) ||
           set_count(dict, "delivered", r->delivered) || set_count(dict, "spilled", r->spilled) ||
           set_count(dict, "unsent", r->unsent) || set_count(dict, "lost", r->lost) ||
           set_count(dict, "doubled", r->doubled) || set_count(dict, "replayed", r->replayed) ||
           set_count(dict, "repeated", r->repeated) || set_count(dict, "streams_ended", r->streams_ended) ||
           set_count(dict, "locked", r->locked) || set_count(dict, "contended", r->contended) ||
           convert_set(dict, "contended_s", PyFloat_FromDouble(seconds(r->contended_ns))) ||
           set_count(dict, "connected", r->connected);
}

static uint64_t span_ns(uint64_t begin_ns, uint64_t end_ns)
{
    return begin_ns && end_ns > begin_ns ? end_ns - begin_ns : 0;
}

static PyObject *to_python(const struct gp_dispatch_result *r)
{
    PyObject *dict = PyDict_New(), *spill = PyDict_New();
    if (!dict || !spill || add_counts(dict, r) || add_spill(spill, &r->spill) ||
        convert_set(dict, "spill", Py_NewRef(spill)) ||
        convert_set(dict, "writing_s", PyFloat_FromDouble(seconds(span_ns(r->began_ns, r->wrote_ns)))) ||
        convert_set(dict, "total_s", PyFloat_FromDouble(seconds(span_ns(r->began_ns, r->finished_ns)))) ||
        convert_set(dict, "held_up", histogram_to_python(&r->held_up)) ||
        convert_set(dict, "delivery", histogram_to_python(&r->delivery)) ||
        convert_set(dict, "disk_error",
                    r->disk_error ? PyUnicode_FromString(r->disk_error->message) : Py_NewRef(Py_None)))
        Py_CLEAR(dict);
    Py_XDECREF(spill);
    return dict;
}

static PyObject *dispatch_result(PyObject *object, PyObject *unused)
{
    const struct gp_dispatch_result *result;
    struct gp_error err = {0};
    if (check(object))
        return NULL;
    struct gp_dispatch *dispatch = ((struct dispatch_object *)object)->dispatch;
    if (!gp_dispatch_wait_finished(dispatch, 0)) {
        PyErr_SetString(PyExc_ValueError, "the Dispatch has not finished");
        return NULL;
    }
    if (gp_dispatch_result(dispatch, &result, &err))
        return engine_raise(engine_state_of(object), &err);
    return to_python(result);
}

/* Stops and joins; not while another thread waits. In a forked child its threads are not there to be joined.
 */
static int destroy(struct dispatch_object *self)
{
    struct gp_dispatch *dispatch = self->dispatch;
    if (self->waiters)
        return -1;
    self->dispatch = NULL;
    if (self->owner == getpid()) {
        Py_BEGIN_ALLOW_THREADS;
        gp_dispatch_destroy(dispatch);
        Py_END_ALLOW_THREADS;
    }
    return 0;
}

static PyObject *dispatch_close(PyObject *object, PyObject *unused)
{
    if (destroy((struct dispatch_object *)object)) {
        PyErr_SetString(PyExc_ValueError, "another thread waits for this Dispatch");
        return NULL;
    }
    Py_RETURN_NONE;
}

static void dispatch_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    destroy((struct dispatch_object *)object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef dispatch_methods[] = {
    {"start", dispatch_start, METH_NOARGS, "Start its threads, which connect and begin."},
    {"stop", dispatch_stop, METH_NOARGS, "End early: what is offered is spilled."},
    {"wait", (PyCFunction)(void (*)(void))dispatch_wait, METH_VARARGS | METH_KEYWORDS,
     "Whether it has finished."},
    {"result", dispatch_result, METH_NOARGS, "What became of all messages."},
    {"close", dispatch_close, METH_NOARGS, "Stop and join."},
    {NULL},
};

static PyType_Slot dispatch_slots[] = {
    {Py_tp_doc, "Messages of many writers handed to a few streams."},
    {Py_tp_init, dispatch_init},
    {Py_tp_dealloc, dispatch_dealloc},
    {Py_tp_methods, dispatch_methods},
    {0, NULL},
};

PyType_Spec dispatch_spec = {
    .name = "grpcperf._engine.Dispatch",
    .basicsize = sizeof(struct dispatch_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = dispatch_slots,
};
