/* Conversions between C and Python: errors, waiting, numbers, requests, histograms. */
#include "python/engine.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/histogram.h"

static const char *code_name(enum gp_error_code code)
{
    switch (code) {
    case GP_ERROR_CONNECT:
        return "connect";
    case GP_ERROR_DIED:
        return "died";
    case GP_ERROR_INVALID:
        return "invalid";
    case GP_ERROR_STOPPED:
        return "stopped";
    default:
        return "engine";
    }
}

PyObject *engine_raise(const struct engine_state *state, const struct gp_error *err)
{
    /* A signal handler that raised while the engine waited has the word. */
    if (PyErr_Occurred())
        return NULL;
    /* strerror and peers' words may be in any encoding. */
    PyObject *message = PyUnicode_DecodeUTF8(err->message, (Py_ssize_t)strlen(err->message), "replace");
    PyObject *args = message ? Py_BuildValue("(sN)", code_name(err->code), message) : NULL;
    if (args) {
        PyErr_SetObject(state->failure, args);
        Py_DECREF(args);
    }
    return NULL;
}

int engine_claim(struct engine_state *state)
{
    if (!state->owner)
        state->owner = getpid();
    return engine_check_owner(state, state->owner);
}

int engine_check_owner(const struct engine_state *state, pid_t owner)
{
    if (owner == getpid())
        return 0;
    struct gp_error err = {0};
    gp_error_set(
        &err, GP_ERROR_ENGINE,
        "this process (%d) was forked from process %d, whose servers and runs it cannot use; start it by "
        "spawn (multiprocessing.set_start_method(\"spawn\")) and create them anew",
        (int)getpid(), (int)owner);
    engine_raise(state, &err);
    return -1;
}

static int interrupted(void *context)
{
    struct engine_wait *wait = context;
    PyEval_RestoreThread(wait->saved);
    int raised = PyErr_CheckSignals();
    wait->saved = PyEval_SaveThread();
    return raised;
}

void engine_wait_begin(struct engine_wait *wait, double timeout_s)
{
    double ns = timeout_s < 0 ? 0 : timeout_s * 1e9;
    wait->wait = (struct gp_wait){
        .timeout_ns = ns < 9e18 ? (uint64_t)ns : UINT64_MAX / 2,
        .interrupted = interrupted,
        .context = wait,
    };
    wait->saved = PyEval_SaveThread();
}

void engine_wait_end(struct engine_wait *wait)
{
    PyEval_RestoreThread(wait->saved);
}

int convert_u64(PyObject *number, void *u64)
{
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return 0;
    *(uint64_t *)u64 = value;
    return 1;
}

int convert_u32(PyObject *number, void *u32)
{
    uint64_t value;
    if (!convert_u64(number, &value))
        return 0;
    if (value > UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%llu is above 2**32 - 1", (unsigned long long)value);
        return 0;
    }
    *(uint32_t *)u32 = (uint32_t)value;
    return 1;
}

int convert_seconds(PyObject *number, void *ns_u64)
{
    double value = PyFloat_AsDouble(number);
    if (value == -1.0 && PyErr_Occurred())
        return 0;
    if (!(value >= 0 && value <= 1e9)) {
        PyErr_SetString(PyExc_ValueError, "seconds must be from 0 to 1e9");
        return 0;
    }
    *(uint64_t *)ns_u64 = (uint64_t)(value * 1e9 + 0.5);
    return 1;
}

static int parse_kind(PyObject *name, enum gp_kind *kind)
{
    static const char *const names[] = {
        [GP_KIND_UNARY] = "unary",
        [GP_KIND_SERVER_STREAM] = "server_stream",
        [GP_KIND_CLIENT_STREAM] = "client_stream",
        [GP_KIND_BIDI] = "bidi",
        [GP_KIND_BIDI_FREE] = "bidi_free",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
            *kind = (enum gp_kind)i;
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "no such kind of call: %R", name);
    return -1;
}

PyObject *convert_need(PyObject *dict, const char *key)
{
    PyObject *value = PyDict_GetItemString(dict, key);
    if (!value)
        PyErr_Format(PyExc_KeyError, "%s is missing", key);
    return value;
}

int convert_set(PyObject *dict, const char *key, PyObject *value)
{
    int status = value ? PyDict_SetItemString(dict, key, value) : -1;
    Py_XDECREF(value);
    return status;
}

/* A text, or the bytes of a binary one. */
static int parse_value(PyObject *value, struct gp_metadata *metadata)
{
    Py_ssize_t size;
    if (PyBytes_Check(value))
        metadata->value = PyBytes_AS_STRING(value);
    else if (!(metadata->value = PyUnicode_AsUTF8(value)))
        return -1;
    size = PyBytes_Check(value) ? PyBytes_GET_SIZE(value) : (Py_ssize_t)strlen(metadata->value);
    metadata->value_bytes = (size_t)size;
    return 0;
}

static int parse_metadata(struct call_opts *calls, PyObject *pairs)
{
    Py_ssize_t count = PySequence_Size(pairs);
    if (count < 0)
        return -1;
    calls->metadata = PyMem_Calloc((size_t)count + 1, sizeof *calls->metadata);
    if (!calls->metadata) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PySequence_GetItem(pairs, i);
        PyObject *value;
        int ok = pair && PyTuple_Check(pair) &&
                 PyArg_ParseTuple(pair, "sO", &calls->metadata[i].key, &value) &&
                 !parse_value(value, &calls->metadata[i]);
        Py_XDECREF(pair); /* the sequence keeps it */
        if (!ok) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "metadata is a sequence of (str, str or bytes)");
            return -1;
        }
    }
    calls->opts.request.metadata = calls->metadata;
    calls->opts.request.metadata_count = (size_t)count;
    return 0;
}

static int parse_args(struct call_opts *calls, PyObject *args)
{
    if (!PyDict_Check(args)) {
        PyErr_SetString(PyExc_TypeError, "channel_args is a dict");
        return -1;
    }
    calls->args = PyMem_Calloc((size_t)PyDict_Size(args) + 1, sizeof *calls->args);
    if (!calls->args) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject *key, *value;
    Py_ssize_t position = 0;
    size_t count = 0;
    while (PyDict_Next(args, &position, &key, &value)) {
        struct gp_client_arg *arg = &calls->args[count++];
        arg->key = PyUnicode_AsUTF8(key);
        if (PyUnicode_Check(value))
            arg->text = PyUnicode_AsUTF8(value);
        else
            arg->number = PyLong_AsLongLong(value);
        if (PyErr_Occurred())
            return -1;
    }
    calls->opts.args = calls->args;
    calls->opts.arg_count = count;
    return 0;
}

/* A tuple of bytes objects, of which one is a message and several are a pool. */
static int parse_pool(struct call_opts *calls, PyObject *pool)
{
    struct gp_request *out = &calls->opts.request;
    Py_ssize_t count = PyTuple_Check(pool) ? PyTuple_GET_SIZE(pool) : 0;
    if (count < 1 || count > (Py_ssize_t)UINT32_MAX) {
        PyErr_SetString(PyExc_TypeError, "pool is a tuple of bytes, of one at least");
        return -1;
    }
    calls->pool = PyMem_Calloc((size_t)count, sizeof *calls->pool);
    if (!calls->pool) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        char *data;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(pool, i), &data, &size))
            return -1;
        calls->pool[i] = (struct gp_payload){data, (size_t)size};
    }
    out->pool = calls->pool;
    out->pool_count = (uint32_t)count;
    return 0;
}

static int parse_request(struct call_opts *calls, PyObject *request)
{
    struct gp_request *out = &calls->opts.request;
    PyObject *kind, *method, *pool, *seed, *metadata, *deadline, *messages;
    if (!(kind = convert_need(request, "kind")) || !(method = convert_need(request, "method")) ||
        !(pool = convert_need(request, "pool")) || !(seed = convert_need(request, "seed")) ||
        !(metadata = convert_need(request, "metadata")) || !(deadline = convert_need(request, "deadline")) ||
        !(messages = convert_need(request, "messages")))
        return -1;
    if (parse_kind(kind, &out->kind) || !(out->method = PyUnicode_AsUTF8(method)) ||
        parse_pool(calls, pool) || !convert_u64(seed, &out->seed) ||
        !convert_seconds(deadline, &out->deadline_ns) || !convert_u32(messages, &out->messages) ||
        parse_metadata(calls, metadata))
        return -1;
    return 0;
}

static int parse_flag(PyObject *dict, const char *key, bool *flag)
{
    PyObject *value = convert_need(dict, key);
    int truth = value ? PyObject_IsTrue(value) : -1;
    *flag = truth > 0;
    return truth < 0 ? -1 : 0;
}

/* None, or (time, timeout, without calls, idle, interval, probes), the first two in seconds, the last three
 * of TCP; 0: left to its default. */
static int parse_keepalive(PyObject *given, struct gp_client_keepalive *out)
{
    double time, timeout;
    int without_calls;
    if (given == Py_None)
        return 0;
    if (!PyTuple_Check(given) ||
        !PyArg_ParseTuple(given, "ddpiii", &time, &timeout, &without_calls, &out->tcp.idle_s,
                          &out->tcp.interval_s, &out->tcp.probes)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "keepalive is None or a tuple");
        return -1;
    }
    out->time_ns = (uint64_t)(time * (double)GP_NS_PER_S);
    out->timeout_ns = (uint64_t)(timeout * (double)GP_NS_PER_S);
    out->without_calls = without_calls;
    out->tcp.on = out->tcp.idle_s || out->tcp.interval_s || out->tcp.probes;
    return 0;
}

/* "round_robin", "locked" or "least_loaded". */
static int parse_pick(PyObject *given, enum gp_pick *pick)
{
    static const char *const names[] = {
        [GP_PICK_ROUND_ROBIN] = "round_robin",
        [GP_PICK_LOCKED] = "locked",
        [GP_PICK_LEAST_LOADED] = "least_loaded",
    };
    const char *name = PyUnicode_AsUTF8(given);
    for (int i = 0; name && i < (int)(sizeof names / sizeof *names); i++) {
        *pick = (enum gp_pick)i;
        if (strcmp(name, names[i]) == 0)
            return 0;
    }
    if (name)
        PyErr_Format(PyExc_ValueError, "pick %s is not known", name);
    return -1;
}

static int parse_client(struct call_opts *calls, PyObject *client)
{
    struct gp_client_opts *out = &calls->opts;
    PyObject *transport, *target, *authority, *connections, *tls, *channel_args, *window, *keepalive;
    PyObject *pick, *calls_per_connection;
    if (!(transport = convert_need(client, "transport")) || !(target = convert_need(client, "target")) ||
        !(authority = convert_need(client, "authority")) ||
        !(connections = convert_need(client, "connections")) || !(tls = convert_need(client, "tls")) ||
        !(channel_args = convert_need(client, "channel_args")) ||
        !(window = convert_need(client, "window")) || !(keepalive = convert_need(client, "keepalive")) ||
        !(pick = convert_need(client, "pick")) ||
        !(calls_per_connection = convert_need(client, "calls_per_connection")))
        return -1;
    if (!(out->transport = PyUnicode_AsUTF8(transport)) || !(out->target = PyUnicode_AsUTF8(target)) ||
        !(out->authority = PyUnicode_AsUTF8(authority)) || !convert_u32(connections, &out->connections) ||
        !convert_tls(tls, &calls->tls) || parse_args(calls, channel_args) ||
        !convert_u32(window, &out->window) || parse_flag(client, "gzip", &out->gzip) ||
        parse_flag(client, "busy_poll", &out->busy_poll) || parse_keepalive(keepalive, &out->keepalive) ||
        parse_pick(pick, &out->pick) || !convert_u64(calls_per_connection, &out->calls_per_connection))
        return -1;
    out->tls = calls->tls.given ? &calls->tls.opts : NULL;
    return 0;
}

int call_opts_init(struct call_opts *calls, PyObject *client, PyObject *request)
{
    if (PyDict_Check(client) && PyDict_Check(request))
        return parse_client(calls, client) || parse_request(calls, request) ? -1 : 0;
    PyErr_SetString(PyExc_TypeError, "a client and a request are dicts");
    return -1;
}

void call_opts_fini(struct call_opts *calls)
{
    PyMem_Free(calls->pool);
    PyMem_Free(calls->metadata);
    PyMem_Free(calls->args);
}

PyObject *histogram_to_python(const struct gp_histogram *histogram)
{
    size_t count = gp_histogram_export(histogram, NULL, 0);
    PyObject *entries =
        PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * sizeof(struct gp_histogram_entry)));
    if (!entries)
        return NULL;
    /* A bytes object's data lies 32 bytes into its allocation: aligned for uint64. */
    gp_histogram_export(histogram, (struct gp_histogram_entry *)(void *)PyBytes_AS_STRING(entries), count);
    return Py_BuildValue("{sKsKsKsKsKsN}", "count", (unsigned long long)histogram->count, "overflow",
                         (unsigned long long)histogram->overflow, "sum_ns",
                         (unsigned long long)histogram->sum_ns, "min_ns",
                         (unsigned long long)(histogram->count ? histogram->min_ns : 0), "max_ns",
                         (unsigned long long)histogram->max_ns, "entries", entries);
}

PyObject *classes_to_python(const uint64_t classes[GP_CLASS_COUNT])
{
    PyObject *status = PyDict_New();
    for (int i = 0; status && i < GP_CLASS_COUNT; i++) {
        if (!classes[i])
            continue;
        PyObject *count = PyLong_FromUnsignedLongLong(classes[i]);
        if (!count || PyDict_SetItemString(status, gp_class_name((enum gp_class)i), count))
            Py_CLEAR(status);
        Py_XDECREF(count);
    }
    return status;
}
