/* _engine.Child: a child process with its control channel. */
#include "python/engine.h"

#include <structmember.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/child.h"
#include "process/control.h"
#include "process/memory_file.h"
#include "python/texts.h"

struct child_object {
    PyObject_HEAD struct gp_child *child;
    struct gp_control *control;
    pid_t owner; /* the process that made it */
    int pid, pidfd;
    int users;                 /* threads that are in a call without the GIL: they wait on the descriptors */
    struct child_object *next; /* in engine_state.children */
};

typedef Grpcperf__Control__FromChild from_child;
typedef Grpcperf__Control__ToChild to_child;

/* The memory files wanted, pointing into a list or tuple of bytes; their number, -1 when they are not. */
static Py_ssize_t memory_array(PyObject *files, struct gp_memory memory[GP_CHILD_FILES_MAX])
{
    Py_ssize_t count = PySequence_Fast_GET_SIZE(files);
    if (count > (Py_ssize_t)GP_CHILD_FILES_MAX) {
        PyErr_Format(PyExc_ValueError, "a child can be handed %u files", GP_CHILD_FILES_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        char *data;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PySequence_Fast_GET_ITEM(files, i), &data, &size))
            return -1;
        memory[i] = (struct gp_memory){data, (size_t)size};
    }
    return count;
}

static int spawn(struct child_object *self, struct engine_state *state, PyObject *argv, PyObject *env,
                 PyObject *files)
{
    struct gp_error err = {0};
    struct gp_memory memory[GP_CHILD_FILES_MAX];
    Py_ssize_t file_count = memory_array(files, memory);
    int status = -1;
    if (file_count < 0)
        return -1;
    const char **arguments = texts_array(argv);
    const char **environment = texts_array(env);
    if (arguments && environment) {
        struct gp_child_opts opts = {
            .argv = arguments, .env = environment, .files = memory, .file_count = (size_t)file_count};
        status = gp_child_create(&self->child, &opts, &err);
        if (!status)
            status = gp_control_create(&self->control, self->child, &err);
        if (status)
            engine_raise(state, &err);
    }
    PyMem_Free(arguments);
    PyMem_Free(environment);
    return status;
}

static int child_init(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"argv", "env", "files", NULL};
    struct child_object *self = (struct child_object *)object;
    struct engine_state *state = engine_state_of(object);
    PyObject *argv, *env, *files = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|O:Child", names, &argv, &env, &files) ||
        engine_claim(state))
        return -1;
    if (self->child) {
        PyErr_SetString(PyExc_TypeError, "a Child is started once");
        return -1;
    }
    argv = texts_encode(argv);
    env = argv ? texts_encode_env(env) : NULL;
    files = !env ? NULL : files ? PySequence_Fast(files, "files is a sequence of bytes") : PyTuple_New(0);
    int status = files ? spawn(self, state, argv, env, files) : -1;
    Py_XDECREF(argv);
    Py_XDECREF(env);
    Py_XDECREF(files);
    if (status)
        return -1;
    self->owner = getpid();
    self->pid = gp_child_pid(self->child);
    self->pidfd = gp_child_pidfd(self->child);
    self->next = state->children;
    state->children = self;
    return 0;
}

static void unlink_child(struct engine_state *state, struct child_object *self)
{
    struct child_object **link = &state->children;
    while (*link && *link != self)
        link = &(*link)->next;
    if (*link)
        *link = self->next;
}

static void child_dealloc(PyObject *object)
{
    struct child_object *self = (struct child_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    unlink_child(engine_state_of(object), self);
    gp_control_destroy(self->control);
    Py_BEGIN_ALLOW_THREADS;
    gp_child_destroy(self->child);
    Py_END_ALLOW_THREADS;
    type->tp_free(object);
    Py_DECREF(type);
}

void child_abandon_all(struct engine_state *state)
{
    for (struct child_object *child = state->children; child; child = child->next)
        gp_child_abandon(child->child);
}

static int check(struct child_object *self)
{
    if (self->child)
        return engine_check_owner(engine_state_of((PyObject *)self), self->owner);
    PyErr_SetString(PyExc_ValueError, "the Child was not started");
    return -1;
}

/* The last to leave a child that was stopped closes its descriptors. */
static void leave(struct child_object *self)
{
    if (--self->users == 0)
        gp_child_abandon(self->child);
    self->pidfd = gp_child_pidfd(self->child);
}

/* Ask, with the GIL released, and check that the answer is of the kind wanted. NULL with an exception. */
static from_child *ask(struct child_object *self, const to_child *request, double timeout_s,
                       Grpcperf__Control__FromChild__WhatCase wanted)
{
    struct gp_error err = {0};
    struct engine_wait wait;
    from_child *reply = NULL;
    if (check(self))
        return NULL;
    self->users++;
    engine_wait_begin(&wait, timeout_s);
    int status = request ? gp_control_request(self->control, request, &wait.wait, &reply, &err)
                         : gp_control_ready(self->control, &wait.wait, &reply, &err);
    engine_wait_end(&wait);
    leave(self);
    if (!status && reply->what_case != wanted) {
        grpcperf__control__from_child__free_unpacked(reply, NULL);
        reply = NULL;
        status = gp_error_set(&err, GP_ERROR_ENGINE, "the child (pid %d) answered something else", self->pid);
    }
    if (status)
        engine_raise(engine_state_of((PyObject *)self), &err);
    return status ? NULL : reply;
}

static PyObject *child_ready(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    double timeout;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "d:ready", names, &timeout))
        return NULL;
    from_child *reply =
        ask((struct child_object *)object, NULL, timeout, GRPCPERF__CONTROL__FROM_CHILD__WHAT_READY);
    if (!reply)
        return NULL;
    PyObject *ready = Py_BuildValue("{sIsLss}", "port", (unsigned)reply->ready->port, "pid",
                                    (long long)reply->ready->pid, "versions", reply->ready->versions);
    grpcperf__control__from_child__free_unpacked(reply, NULL);
    return ready;
}

/* A count under its own name. */
#define COUNT(record, name) #name, (unsigned long long)(record)->name

static PyObject *memstats_to_python(const Grpcperf__Control__MemStats *m)
{
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsO}", COUNT(m, heap_alloc), COUNT(m, heap_sys),
                         COUNT(m, heap_idle), COUNT(m, stack_inuse), COUNT(m, stack_sys), COUNT(m, sys),
                         COUNT(m, threads), COUNT(m, own_threads), COUNT(m, running), COUNT(m, streams),
                         COUNT(m, threadless), "settled", m->settled ? Py_True : Py_False);
}

static PyObject *child_memstats(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"settle", "timeout", NULL};
    double timeout;
    int settle;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "pd:memstats", names, &settle, &timeout))
        return NULL;
    Grpcperf__Control__Sample sample = GRPCPERF__CONTROL__SAMPLE__INIT;
    sample.settle = settle;
    to_child request = GRPCPERF__CONTROL__TO_CHILD__INIT;
    request.what_case = GRPCPERF__CONTROL__TO_CHILD__WHAT_SAMPLE;
    request.sample = &sample;
    from_child *reply =
        ask((struct child_object *)object, &request, timeout, GRPCPERF__CONTROL__FROM_CHILD__WHAT_MEMSTATS);
    if (!reply)
        return NULL;
    PyObject *memstats = memstats_to_python(reply->memstats);
    grpcperf__control__from_child__free_unpacked(reply, NULL);
    return memstats;
}

static PyObject *counters_to_python(const Grpcperf__Control__Counters *c)
{
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsK}", COUNT(c, running), COUNT(c, peak_running),
                         COUNT(c, parked), COUNT(c, queued), COUNT(c, started), COUNT(c, finished),
                         COUNT(c, rejected), COUNT(c, cancelled), COUNT(c, deadline_exceeded),
                         COUNT(c, work_after_cancel_us), COUNT(c, pruned), COUNT(c, degraded),
                         COUNT(c, threads_exhausted));
}

static PyObject *child_counters(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    double timeout;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "d:counters", names, &timeout))
        return NULL;
    Grpcperf__Control__GetCounters get = GRPCPERF__CONTROL__GET_COUNTERS__INIT;
    to_child request = GRPCPERF__CONTROL__TO_CHILD__INIT;
    request.what_case = GRPCPERF__CONTROL__TO_CHILD__WHAT_GET_COUNTERS;
    request.get_counters = &get;
    from_child *reply =
        ask((struct child_object *)object, &request, timeout, GRPCPERF__CONTROL__FROM_CHILD__WHAT_COUNTERS);
    if (!reply)
        return NULL;
    PyObject *counters = counters_to_python(reply->counters);
    grpcperf__control__from_child__free_unpacked(reply, NULL);
    return counters;
}

/* Requests that are answered by Done. */
static PyObject *ask_done(PyObject *object, const to_child *request, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    double timeout;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "d", names, &timeout))
        return NULL;
    from_child *reply =
        ask((struct child_object *)object, request, timeout, GRPCPERF__CONTROL__FROM_CHILD__WHAT_DONE);
    if (!reply)
        return NULL;
    grpcperf__control__from_child__free_unpacked(reply, NULL);
    Py_RETURN_NONE;
}

static PyObject *child_release(PyObject *object, PyObject *args, PyObject *keywords)
{
    Grpcperf__Control__Release release = GRPCPERF__CONTROL__RELEASE__INIT;
    to_child request = GRPCPERF__CONTROL__TO_CHILD__INIT;
    request.what_case = GRPCPERF__CONTROL__TO_CHILD__WHAT_RELEASE;
    request.release = &release;
    return ask_done(object, &request, args, keywords);
}

static PyObject *child_reset_peaks(PyObject *object, PyObject *args, PyObject *keywords)
{
    Grpcperf__Control__ResetPeaks reset = GRPCPERF__CONTROL__RESET_PEAKS__INIT;
    to_child request = GRPCPERF__CONTROL__TO_CHILD__INIT;
    request.what_case = GRPCPERF__CONTROL__TO_CHILD__WHAT_RESET_PEAKS;
    request.reset_peaks = &reset;
    return ask_done(object, &request, args, keywords);
}

static PyObject *child_impair(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"how", "timeout", NULL};
    const char *how;
    double timeout;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sd:impair", names, &how, &timeout))
        return NULL;
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value_by_name(&grpcperf__control__impair__how__descriptor, how);
    if (!value)
        return PyErr_Format(PyExc_ValueError, "\"%s\" is no way to impair a relay", how);
    Grpcperf__Control__Impair impair = GRPCPERF__CONTROL__IMPAIR__INIT;
    impair.how = (Grpcperf__Control__Impair__How)value->value;
    to_child request = GRPCPERF__CONTROL__TO_CHILD__INIT;
    request.what_case = GRPCPERF__CONTROL__TO_CHILD__WHAT_IMPAIR;
    request.impair = &impair;
    from_child *reply =
        ask((struct child_object *)object, &request, timeout, GRPCPERF__CONTROL__FROM_CHILD__WHAT_DONE);
    if (!reply)
        return NULL;
    grpcperf__control__from_child__free_unpacked(reply, NULL);
    Py_RETURN_NONE;
}

static PyObject *child_dead(PyObject *object, PyObject *unused)
{
    struct child_object *self = (struct child_object *)object;
    char reason[256];
    if (check(self))
        return NULL;
    if (!gp_child_dead(self->child, reason, sizeof reason))
        Py_RETURN_NONE;
    return PyUnicode_FromString(reason);
}

typedef size_t tail_reader(const struct gp_child *, char *, size_t);

static PyObject *tail(const struct gp_child *child, tail_reader *read_tail)
{
    char *text = PyMem_Malloc(GP_MEMORY_FILE_KEPT);
    if (!text)
        return PyErr_NoMemory();
    size_t size = read_tail(child, text, GP_MEMORY_FILE_KEPT);
    PyObject *decoded = PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, "replace");
    PyMem_Free(text);
    return decoded;
}

static PyObject *child_tail(PyObject *object, PyObject *args)
{
    struct child_object *self = (struct child_object *)object;
    int descriptor;
    if (!PyArg_ParseTuple(args, "i:tail", &descriptor) || check(self))
        return NULL;
    return tail(self->child, descriptor == 1 ? gp_child_stdout_tail : gp_child_stderr_tail);
}

/* Its last words are read while there is a descriptor to read them from. */
static PyObject *child_close(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grace", NULL};
    struct child_object *self = (struct child_object *)object;
    double grace = 1.5; /* with the kill and the reaping, closing stays within 2 s */
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|d:close", names, &grace))
        return NULL;
    if (!self->child || self->owner != getpid())
        return Py_BuildValue("(ss)", "", "");
    self->users++;
    Py_BEGIN_ALLOW_THREADS;
    gp_child_stop(self->child, grace > 0 ? (uint64_t)(grace * 1e9) : 0);
    Py_END_ALLOW_THREADS;
    PyObject *words = Py_BuildValue("(NN)", tail(self->child, gp_child_stdout_tail),
                                    tail(self->child, gp_child_stderr_tail));
    leave(self);
    return words;
}

#define WITH_KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

static PyMethodDef child_methods[] = {
    {"ready", WITH_KEYWORDS(child_ready), "Wait for the child's Ready."},
    {"memstats", WITH_KEYWORDS(child_memstats), "Ask for memory statistics."},
    {"counters", WITH_KEYWORDS(child_counters), "Ask for the handlers' counters."},
    {"release", WITH_KEYWORDS(child_release), "Let every parked call go."},
    {"reset_peaks", WITH_KEYWORDS(child_reset_peaks), "Start peaks anew."},
    {"impair", WITH_KEYWORDS(child_impair), "Have a relay fail its connections."},
    {"dead", child_dead, METH_NOARGS, "Why it is dead, or None."},
    {"tail", child_tail, METH_VARARGS, "The last it wrote to stdout or stderr."},
    {"close", WITH_KEYWORDS(child_close), "End it."},
    {NULL},
};

static PyMemberDef child_members[] = {
    {"pid", T_INT, offsetof(struct child_object, pid), READONLY, "process id"},
    {"pidfd", T_INT, offsetof(struct child_object, pidfd), READONLY, "readable once it is dead"},
    {NULL},
};

static PyType_Slot child_slots[] = {
    {Py_tp_doc, "A child process with a control channel."},
    {Py_tp_init, child_init},
    {Py_tp_dealloc, child_dealloc},
    {Py_tp_methods, child_methods},
    {Py_tp_members, child_members},
    {0, NULL},
};

PyType_Spec child_spec = {
    .name = "grpcperf._engine.Child",
    .basicsize = sizeof(struct child_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = child_slots,
};
