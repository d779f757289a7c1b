/* Connections made for their own sake: their times, bytes, and what they cost the server. */
#include "python/engine.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "net/handshake.h"
#include "net/socket.h"

#define REST_NS (20 * GP_NS_PER_MS) /* for a server to be done with the last of them */

struct series {
    struct gp_endpoint to;
    struct gp_tls *tls;
    unsigned count;
    pid_t server;
    struct gp_handshake *each;
    uint64_t server_cpu_ns;
};

static int server_cpu(const struct series *series, uint64_t *cpu_ns)
{
    struct timespec rest = gp_clock_timespec(REST_NS);

    nanosleep(&rest, NULL);
    *cpu_ns = 0;
    return series->server ? gp_clock_pid_cpu_ns(series->server, cpu_ns) : 0;
}

/* The first is not counted: its session is what the next one resumes, and what a server does once it does
 * then. */
static int run(struct series *series, const struct gp_wait *wait, struct gp_error *err)
{
    uint64_t before_ns, after_ns;

    if (gp_handshake(&series->to, series->tls, wait, &series->each[0], err))
        return -1;
    int known = server_cpu(series, &before_ns);
    for (unsigned i = 0; i < series->count; i++)
        if (gp_handshake(&series->to, series->tls, wait, &series->each[i], err))
            return -1;
    known |= server_cpu(series, &after_ns);
    series->server_cpu_ns = known == 0 ? after_ns - before_ns : 0;
    return 0;
}

static PyObject *one_to_python(const struct gp_handshake *one)
{
    PyObject *settings =
        one->settings_ns ? PyFloat_FromDouble(seconds(one->settings_ns)) : Py_NewRef(Py_None);
    return Py_BuildValue("{sdsdsNsOsKsK}", "connect_s", seconds(one->connect_ns), "tls_s",
                         seconds(one->tls_ns), "settings_s", settings, "resumed",
                         one->resumed ? Py_True : Py_False, "sent", (unsigned long long)one->sent, "received",
                         (unsigned long long)one->received);
}

static PyObject *to_python(const struct series *series)
{
    PyObject *each = PyList_New(series->count);
    if (!each)
        return NULL;
    for (unsigned i = 0; i < series->count; i++) {
        PyObject *one = one_to_python(&series->each[i]);
        if (!one) {
            Py_DECREF(each);
            return NULL;
        }
        PyList_SET_ITEM(each, i, one);
    }
    PyObject *cpu =
        series->server_cpu_ns ? PyFloat_FromDouble(seconds(series->server_cpu_ns)) : Py_NewRef(Py_None);
    return Py_BuildValue("{sNsN}", "each", each, "server_cpu_s", cpu);
}

PyObject *handshakes(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"target", "authority", "count", "timeout", "tls", "alpn", "server_pid", NULL};
    const char *target, *authority;
    double timeout;
    struct tls_opts tls = {0};
    struct series series = {0};
    struct gp_error err = {0};
    struct engine_wait wait;
    int alpn = 1, server = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "ssO&dO&|pi:handshakes", names, &target, &authority,
                                     convert_u32, &series.count, &timeout, convert_tls, &tls, &alpn, &server))
        return NULL;
    tls.opts.without_alpn = !alpn;
    tls.opts.exact_reads = true;
    series.server = server;
    if (gp_endpoint_parse(target, &series.to, &err) ||
        (tls.given && gp_tls_create(&series.tls, &tls.opts, authority, &err)))
        return engine_raise(engine_state(module), &err);
    series.each = calloc((size_t)series.count + 1, sizeof *series.each);
    int status = -1;
    if (series.each) {
        engine_wait_begin(&wait, timeout);
        status = run(&series, &wait.wait, &err);
        engine_wait_end(&wait);
    }
    PyObject *told = !series.each ? PyErr_NoMemory()
                     : status     ? engine_raise(engine_state(module), &err)
                                  : to_python(&series);
    free(series.each);
    gp_tls_destroy(series.tls);
    return told;
}
