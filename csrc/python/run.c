/* _engine.Run: a load run in threads of its own. */
#include "python/engine.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "load/run.h"
#include "python/schedule.h"

struct run_object {
    PyObject_HEAD struct gp_run *run;
    pid_t owner;
    int server_pidfd; /* of its own (or -1): the target may be closed while this runs */
};

/* How long one wait keeps the GIL away from signals. */
static const uint64_t slice_ns = 50 * GP_NS_PER_MS;

static int parse_cpus(PyObject *cpus, struct gp_run_opts *opts)
{
    if (cpus == Py_None)
        return 0;
    PyObject *fast = PySequence_Fast(cpus, "cpus is a sequence of int");
    if (!fast)
        return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
    int *numbers = PyMem_Calloc((size_t)count + 1, sizeof *numbers);
    if (!numbers)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; numbers && i < count; i++)
        numbers[i] = (int)PyLong_AsLong(PySequence_Fast_GET_ITEM(fast, i));
    Py_DECREF(fast);
    opts->cpus = numbers;
    opts->cpu_count = (size_t)count;
    return PyErr_Occurred() ? -1 : 0;
}

/* None: a closed loop. */
static int parse_schedule(PyObject *dict, struct schedule_opts *schedule, struct gp_run_opts *opts)
{
    if (dict == Py_None)
        return 0;
    if (schedule_opts_init(schedule, dict))
        return -1;
    opts->steps = schedule->steps;
    opts->step_count = schedule->step_count;
    opts->arrival = schedule->arrival;
    opts->seed = schedule->seed;
    opts->catch_up = schedule->catch_up;
    return 0;
}

static int create(struct run_object *self, struct engine_state *state, struct gp_run_opts *opts)
{
    struct gp_error err = {0};
    int status = 0;
    self->owner = getpid();
    self->server_pidfd = opts->server_pidfd;
    if (opts->server_pidfd >= 0) {
        self->server_pidfd = opts->server_pidfd = fcntl(opts->server_pidfd, F_DUPFD_CLOEXEC, 0);
        if (opts->server_pidfd < 0)
            status = gp_error_errno(&err, "cannot watch server process %d", (int)opts->server_pid);
    }
    if (status == 0)
        status = gp_run_create(&self->run, opts, &err);
    if (status)
        engine_raise(state, &err);
    return status;
}

static int run_init(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"client",   "request",    "threads",      "concurrency", "connect_timeout",
                            "warmup",   "duration",   "calls",        "drain",       "think_time",
                            "schedule", "server_pid", "server_pidfd", "cpus",        NULL};
    struct run_object *self = (struct run_object *)object;
    struct engine_state *state = engine_state_of(object);
    struct gp_run_opts opts = {0};
    struct call_opts calls = {0};
    struct schedule_opts schedule = {0};
    PyObject *client, *request, *times, *cpus;
    int status = -1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "$OOO&O&O&O&O&O&O&O&OiiO:Run", names, &client, &request,
                                     convert_u32, &opts.threads, convert_u32, &opts.concurrency,
                                     convert_seconds, &opts.connect_timeout_ns, convert_seconds,
                                     &opts.warmup_ns, convert_seconds, &opts.duration_ns, convert_u64,
                                     &opts.calls, convert_seconds, &opts.drain_ns, convert_seconds,
                                     &opts.think_ns, &times, &opts.server_pid, &opts.server_pidfd, &cpus) ||
        engine_claim(state))
        return -1;
    if (self->run) {
        PyErr_SetString(PyExc_TypeError, "a Run is set up once");
        return -1;
    }
    calls.opts.max_in_flight = opts.concurrency;
    if (!call_opts_init(&calls, client, request) && !parse_schedule(times, &schedule, &opts) &&
        !parse_cpus(cpus, &opts)) {
        opts.client = calls.opts;
        status = create(self, state, &opts);
    }
    call_opts_fini(&calls);
    schedule_opts_fini(&schedule);
    PyMem_Free((void *)opts.cpus);
    return status;
}

static void run_dealloc(PyObject *object)
{
    struct run_object *self = (struct run_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    /* In a forked child its threads are not there to be joined. */
    if (self->owner == getpid()) {
        Py_BEGIN_ALLOW_THREADS;
        gp_run_destroy(self->run);
        Py_END_ALLOW_THREADS;
    }
    if (self->owner && self->server_pidfd >= 0)
        close(self->server_pidfd);
    type->tp_free(object);
    Py_DECREF(type);
}

static int check(PyObject *object)
{
    struct run_object *self = (struct run_object *)object;
    if (self->run)
        return engine_check_owner(engine_state_of(object), self->owner);
    PyErr_SetString(PyExc_ValueError, "the Run was not set up");
    return -1;
}

static PyObject *run_start(PyObject *object, PyObject *unused)
{
    struct gp_error err = {0};
    if (check(object))
        return NULL;
    if (gp_run_start(((struct run_object *)object)->run, &err))
        return engine_raise(engine_state_of(object), &err);
    Py_RETURN_NONE;
}

static PyObject *run_wait(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    struct gp_run *run = ((struct run_object *)object)->run;
    uint64_t timeout_ns;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&:wait", names, convert_seconds, &timeout_ns) ||
        check(object))
        return NULL;
    uint64_t until_ns = gp_clock_now_ns() + timeout_ns;
    for (;;) {
        uint64_t now_ns = gp_clock_now_ns();
        uint64_t left_ns = now_ns < until_ns ? until_ns - now_ns : 0;
        bool ended;
        Py_BEGIN_ALLOW_THREADS;
        ended = gp_run_wait(run, left_ns < slice_ns ? left_ns : slice_ns);
        Py_END_ALLOW_THREADS;
        if (PyErr_CheckSignals())
            return NULL;
        if (ended || left_ns <= slice_ns)
            return PyBool_FromLong(ended);
    }
}

static PyObject *run_stop(PyObject *object, PyObject *unused)
{
    if (check(object))
        return NULL;
    gp_run_stop(((struct run_object *)object)->run);
    Py_RETURN_NONE;
}

static PyObject *run_snapshot(PyObject *object, PyObject *unused)
{
    static const char *const phases[] = {"connect", "warmup", "measure", "drain", "ended"};
    struct gp_run_snapshot snapshot;
    if (check(object))
        return NULL;
    gp_run_snapshot(((struct run_object *)object)->run, &snapshot);
    typedef unsigned long long u;
    return Py_BuildValue("{sssdsKsKsKsKsdsd}", "phase", phases[snapshot.phase], "elapsed_s",
                         seconds(snapshot.elapsed_ns), "sent", (u)snapshot.sent, "calls", (u)snapshot.calls,
                         "ok", (u)snapshot.ok, "not_sent", (u)snapshot.not_sent, "p50_s",
                         seconds(snapshot.p50_ns), "p99_s", seconds(snapshot.p99_ns));
}

static PyObject *run_result(PyObject *object, PyObject *unused)
{
    const struct gp_run_result *result;
    struct gp_error err = {0};
    if (check(object))
        return NULL;
    if (gp_run_result(((struct run_object *)object)->run, &result, &err))
        return engine_raise(engine_state_of(object), &err);
    return result_to_python(result);
}

static PyMethodDef run_methods[] = {
    {"start", run_start, METH_NOARGS, "Start its threads."},
    {"wait", (PyCFunction)(void (*)(void))run_wait, METH_VARARGS | METH_KEYWORDS, "Whether it has ended."},
    {"stop", run_stop, METH_NOARGS, "Cease, drain, cancel; returns at once."},
    {"snapshot", run_snapshot, METH_NOARGS, "Where it is."},
    {"result", run_result, METH_NOARGS, "What was measured."},
    {NULL},
};

static PyType_Slot run_slots[] = {
    {Py_tp_doc, "A load run in threads of its own."},
    {Py_tp_init, run_init},
    {Py_tp_dealloc, run_dealloc},
    {Py_tp_methods, run_methods},
    {0, NULL},
};

PyType_Spec run_spec = {
    .name = "grpcperf._engine.Run",
    .basicsize = sizeof(struct run_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = run_slots,
};
