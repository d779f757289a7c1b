/* _engine: the module, its functions that are not methods, and its state. */
#include "python/engine.h"

#include <string.h>
#include <unistd.h>

#include <protobuf-c/protobuf-c.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/random.h"
#include "benchmark_service.pb-c.h"
#include "net/probe.h"
#include "process/procfs.h"
#include "python/schedule.h"

struct engine_state *engine_state(PyObject *module)
{
    return PyModule_GetState(module);
}

struct engine_state *engine_state_of(PyObject *self)
{
    return PyType_GetModuleState(Py_TYPE(self));
}

static PyObject *abandon_after_fork(PyObject *module, PyObject *unused)
{
    struct engine_state *state = engine_state(module);
    if (state->owner && state->owner != getpid())
        child_abandon_all(state);
    Py_RETURN_NONE;
}

static PyObject *versions(PyObject *module, PyObject *unused)
{
#ifdef NDEBUG
    const char *build = "release";
#else
    const char *build = "debug";
#endif
    return Py_BuildValue("{ssssssss}", "grpc", gp_client_core_version(), "protobuf_c", protobuf_c_version(),
                         "compiler", __VERSION__, "build", build);
}

/* One of the peer's SETTINGS: None where it sent none. */
static PyObject *setting(uint64_t value)
{
    if (value == UINT64_MAX)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *probe(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"address", "timeout", "tls", NULL};
    const char *address;
    double timeout;
    struct tls_opts tls = {0};
    struct gp_probe p;
    struct gp_error err = {0};
    struct engine_wait wait;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sd|O&:probe", names, &address, &timeout, convert_tls,
                                     &tls))
        return NULL;
    engine_wait_begin(&wait, timeout);
    int status = gp_probe(address, tls.given ? &tls.opts : NULL, &wait.wait, &p, &err);
    engine_wait_end(&wait);
    if (status)
        return engine_raise(engine_state(module), &err);
    return Py_BuildValue("{sssssdsds{sNsNsNsNsN}}", "resolved", p.resolved, "authority", p.authority,
                         "connect_s", seconds(p.connect_ns), "handshake_s", seconds(p.handshake_ns),
                         "settings", "max_concurrent_streams", setting(p.max_concurrent_streams),
                         "initial_window_size", setting(p.initial_window_size), "max_frame_size",
                         setting(p.max_frame_size), "max_header_list_size", setting(p.max_header_list_size),
                         "header_table_size", setting(p.header_table_size));
}

/* Of random bytes: what compresses or looks like the request before would measure that. */
static void fill(char *bytes, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i += 8) {
        uint64_t random = gp_random_at(seed, i);
        memcpy(bytes + i, &random, size - i < 8 ? size - i : 8);
    }
}

static PyObject *benchmark_request(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"request_size", "response_size", "seed", NULL};
    int request_size, response_size;
    uint64_t seed = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "ii|O&:benchmark_request", names, &request_size,
                                     &response_size, convert_u64, &seed))
        return NULL;
    if (request_size < 0 || response_size < 0) {
        PyErr_SetString(PyExc_ValueError, "sizes are not negative");
        return NULL;
    }
    PyObject *body = PyBytes_FromStringAndSize(NULL, request_size);
    if (!body)
        return NULL;
    fill(PyBytes_AS_STRING(body), (size_t)request_size, seed);
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
    payload.body.data = (uint8_t *)PyBytes_AS_STRING(body);
    payload.body.len = (size_t)request_size;
    Grpc__Testing__SimpleRequest request = GRPC__TESTING__SIMPLE_REQUEST__INIT;
    request.response_size = response_size;
    request.payload = &payload;
    size_t size = grpc__testing__simple_request__get_packed_size(&request);
    PyObject *message = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (message)
        grpc__testing__simple_request__pack(&request, (uint8_t *)PyBytes_AS_STRING(message));
    Py_DECREF(body);
    return message;
}

static PyObject *histogram_slot(PyObject *module, PyObject *number)
{
    uint64_t value_ns;
    if (!convert_u64(number, &value_ns))
        return NULL;
    return PyLong_FromUnsignedLong(gp_histogram_slot(value_ns));
}

static PyObject *histogram_slot_high(PyObject *module, PyObject *number)
{
    uint32_t slot;
    if (!convert_u32(number, &slot))
        return NULL;
    return PyLong_FromUnsignedLongLong(gp_histogram_slot_high_ns(slot));
}

static int add_parts(PyObject *dict, unsigned parts, const struct gp_procfs_sample *s)
{
    return (parts & GP_PROCFS_PSS && convert_set(dict, "pss", PyLong_FromUnsignedLongLong(s->pss_bytes))) ||
           (parts & GP_PROCFS_MAPS &&
            (convert_set(dict, "writable", PyLong_FromUnsignedLongLong(s->writable_bytes)) ||
             convert_set(dict, "mappings", PyLong_FromUnsignedLong(s->mappings)))) ||
           (parts & GP_PROCFS_SOCKETS && convert_set(dict, "sockets", PyLong_FromUnsignedLong(s->sockets))) ||
           (parts & GP_PROCFS_SOCKET_MEMORY &&
            convert_set(dict, "socket_bytes", PyLong_FromUnsignedLongLong(s->socket_bytes))) ||
           (parts & GP_PROCFS_SWITCHES &&
            convert_set(dict, "context_switches", PyLong_FromUnsignedLongLong(s->context_switches))) ||
           (parts & GP_PROCFS_FDS && convert_set(dict, "fds", PyLong_FromUnsignedLong(s->fds)));
}

static PyObject *sample_to_python(unsigned parts, const struct gp_procfs_sample *s)
{
    typedef unsigned long long u;
    PyObject *dict =
        Py_BuildValue("{sdsKsKsKsdsdsI}", "time", seconds(s->time_ns), "rss", (u)s->rss_bytes, "rss_anon",
                      (u)s->rss_anon_bytes, "peak_rss", (u)s->peak_rss_bytes, "cpu_user_s", s->cpu_user_s,
                      "cpu_system_s", s->cpu_system_s, "threads", (unsigned)s->threads);
    if (dict && add_parts(dict, parts & s->known, s))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *process_sample(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"pid", "pss", "maps", "sockets", "switches", "fds", "socket_bytes", NULL};
    int pid, pss = 0, maps = 0, sockets = 0, switches = 0, fds = 0, socket_bytes = 0, status;
    struct gp_procfs_sample sample;
    struct gp_error err = {0};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i|$pppppp:process_sample", names, &pid, &pss, &maps,
                                     &sockets, &switches, &fds, &socket_bytes))
        return NULL;
    unsigned parts = (pss ? GP_PROCFS_PSS : 0u) | (maps ? GP_PROCFS_MAPS : 0u) |
                     (sockets ? GP_PROCFS_SOCKETS : 0u) | (switches ? GP_PROCFS_SWITCHES : 0u) |
                     (fds ? GP_PROCFS_FDS : 0u) | (socket_bytes ? GP_PROCFS_SOCKET_MEMORY : 0u);
    Py_BEGIN_ALLOW_THREADS;
    status = gp_procfs_sample(pid, parts, &sample, &err);
    Py_END_ALLOW_THREADS;
    if (status)
        return engine_raise(engine_state(module), &err);
    return sample_to_python(parts, &sample);
}

/* RLIM_INFINITY is -1 to Python, as in its resource module. */
static long long limit(uint64_t value)
{
    return value > INT64_MAX ? -1 : (long long)value;
}

static PyObject *fd_limit(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"pid", NULL};
    int pid = 0;
    uint64_t soft, hard;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|i:fd_limit", names, &pid))
        return NULL;
    if (gp_procfs_fd_limit(pid, &soft, &hard)) {
        struct gp_error err = {0};
        gp_error_set(&err, GP_ERROR_ENGINE, "the descriptor limit of process %d cannot be read", pid);
        return engine_raise(engine_state(module), &err);
    }
    return Py_BuildValue("(LL)", limit(soft), limit(hard));
}

#define WITH_KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

static PyMethodDef functions[] = {
    {"abandon_after_fork", abandon_after_fork, METH_NOARGS,
     "In a forked child: let go of the parent's servers."},
    {"versions", versions, METH_NOARGS, "Versions of what the engine is built on."},
    {"probe", WITH_KEYWORDS(probe), "Look whether an address speaks HTTP/2."},
    {"handshakes", WITH_KEYWORDS(handshakes), "Make connections one after the other, and time each."},
    {"check_tls", WITH_KEYWORDS(check_tls), "Whether TLS options can be used."},
    {"self_signed", WITH_KEYWORDS(self_signed), "Certificates for servers and tests on one's own machine."},
    {"benchmark_request", WITH_KEYWORDS(benchmark_request), "A serialized grpc.testing.SimpleRequest."},
    {"schedule_times", WITH_KEYWORDS(schedule_times), "Intended times of an open loop's calls."},
    {"histogram_slot", histogram_slot, METH_O, "Where a value in ns is counted."},
    {"histogram_slot_high", histogram_slot_high, METH_O, "The largest value in ns counted in a slot."},
    {"process_sample", WITH_KEYWORDS(process_sample), "What /proc tells of a process."},
    {"fd_limit", WITH_KEYWORDS(fd_limit), "Soft and hard limit on open descriptors of a process."},
    {NULL},
};

static int add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int status = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return status;
}

static int module_exec(PyObject *module)
{
    struct engine_state *state = engine_state(module);
    state->failure = PyErr_NewException("grpcperf._engine.EngineFailure", NULL, NULL);
    if (!state->failure || PyModule_AddObjectRef(module, "EngineFailure", state->failure))
        return -1;
    PyType_Spec *types[] = {&allocations_spec, &child_spec, &dispatch_spec, &run_spec, &park_spec};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (add_type(module, types[i]))
            return -1;
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    Py_VISIT(engine_state(module)->failure);
    return 0;
}

static int module_clear(PyObject *module)
{
    Py_CLEAR(engine_state(module)->failure);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "grpcperf._engine",
    .m_doc = "The C engine of grpcperf; grpcperf/_engine.pyi describes it.",
    .m_size = sizeof(struct engine_state),
    .m_methods = functions,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__engine(void);

PyMODINIT_FUNC PyInit__engine(void)
{
    return PyModuleDef_Init(&module_definition);
}
