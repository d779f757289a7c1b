/* What a load run has measured, as Python's dict (the one that Run.result returns in _engine.pyi). */
#include "python/engine.h"

#include <string.h>

#include "load/run.h"

/* As all histograms' entries, see _engine.pyi. */
static PyObject *latencies_to_python(const struct gp_packed *packed)
{
    struct gp_packed_reader reader = gp_packed_read(packed);
    PyObject *bytes =
        PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(packed->count * sizeof(struct gp_histogram_entry)));
    if (!bytes)
        return NULL;
    /* A bytes object's data lies 32 bytes into its allocation: aligned for uint64. */
    struct gp_histogram_entry *entry = (struct gp_histogram_entry *)(void *)PyBytes_AS_STRING(bytes);
    while (gp_packed_next(&reader, entry))
        entry++;
    return bytes;
}

static PyObject *windows_to_python(const struct gp_windows *windows)
{
    PyObject *list = PyList_New((Py_ssize_t)windows->count);
    for (size_t i = 0; list && i < windows->count; i++) {
        const struct gp_window *w = gp_windows_at(windows, i);
        PyObject *window = Py_BuildValue("{sdsdsKsKsKsN}", "start_s", seconds(w->start_ns), "length_s",
                                         seconds(w->length_ns), "sent", (unsigned long long)w->sent, "ok",
                                         (unsigned long long)w->ok, "failed", (unsigned long long)w->failed,
                                         "entries", latencies_to_python(&w->latencies));
        if (window)
            PyList_SET_ITEM(list, (Py_ssize_t)i, window);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *causes_to_python(const struct gp_run_result *r)
{
    PyObject *list = PyList_New((Py_ssize_t)r->cause_count);
    for (size_t i = 0; list && i < r->cause_count; i++) {
        const struct gp_client_cause *c = &r->causes[i];
        /* A text cut at its end may be cut inside a character. */
        PyObject *text = PyUnicode_DecodeUTF8(c->text, (Py_ssize_t)strlen(c->text), "replace");
        PyObject *cause = text ? Py_BuildValue("{sssKsN}", "status", gp_class_name(c->class), "calls",
                                               (unsigned long long)c->calls, "text", text)
                               : NULL;
        if (cause)
            PyList_SET_ITEM(list, (Py_ssize_t)i, cause);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* A number, or None when it could not be told. */
static PyObject *number_or_none(bool known, double number)
{
    if (known)
        return PyFloat_FromDouble(number);
    Py_RETURN_NONE;
}

static int add_histograms(PyObject *dict, const struct gp_run_result *r)
{
    const struct {
        const char *name;
        const struct gp_histogram *histogram;
    } all[] = {
        {"latency", &r->latency},
        {"errors", &r->errors},
        {"service", &r->service},
        {"send_lag", &r->lag},
        {"queued", &r->queued},
        {"send_gap", &r->gap},
        {"first_message", &r->first_message},
        {"message_gap", &r->message_gap},
        {"round_trip", &r->round_trip},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (convert_set(dict, all[i].name, histogram_to_python(all[i].histogram)))
            return -1;
    return 0;
}

static int add_counts(PyObject *dict, const struct gp_run_result *r)
{
    const struct {
        const char *name;
        uint64_t count;
    } all[] = {
        {"not_sent", r->not_sent},
        {"ok_in_window", r->ok_in_window},
        {"all_in_window", r->all_in_window},
        {"messages_sent", r->messages_sent},
        {"payload_sent", r->payload_sent},
        {"ahead", r->ahead},
        {"messages_received", r->messages_received},
        {"bursts", r->bursts},
        {"burst_calls", r->burst_calls},
        {"largest_burst", r->largest_burst},
        {"polls", r->polls},
        {"idle_polls", r->idle_polls},
        {"connected", r->connected},
        {"reconnects", r->reconnects},
        {"alive", r->alive},
        {"connections_opened", r->opened},
        {"tls_resumed", r->tls_resumed},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (convert_set(dict, all[i].name, PyLong_FromUnsignedLongLong(all[i].count)))
            return -1;
    return 0;
}

/* What the peers allow at the end; None where there is no limit, or nobody to say. */
static PyObject *settings_to_python(const struct gp_client_peer *peer)
{
    const struct {
        const char *name;
        uint32_t value;
    } all[] = {
        {"max_concurrent_streams", peer->max_concurrent_streams},
        {"initial_window_size", peer->initial_window_size},
        {"max_frame_size", peer->max_frame_size},
        {"max_header_list_size", peer->max_header_list_size},
    };
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < sizeof all / sizeof *all; i++) {
        PyObject *value =
            all[i].value == UINT32_MAX ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(all[i].value);
        if (convert_set(dict, all[i].name, value))
            Py_CLEAR(dict);
    }
    return dict;
}

PyObject *result_to_python(const struct gp_run_result *r)
{
    PyObject *dict = Py_BuildValue(
        "{sNsNsNsNsdsdsdsNsNsNsNsOsO}", "status", classes_to_python(r->classes), "windows",
        windows_to_python(&r->windows), "causes", causes_to_python(r), "settings",
        settings_to_python(&r->peer), "window_s", seconds(r->window_ns), "connect_s", seconds(r->connect_ns),
        "drain_s", seconds(r->drain_ns), "client_cpu_s",
        number_or_none(r->client_cpu_known, seconds(r->client_cpu_ns)), "server_cpu_s",
        number_or_none(r->server_cpu_known, seconds(r->server_cpu_ns)), "steal",
        number_or_none(r->steal_known, r->steal), "pressure", number_or_none(r->pressure_known, r->pressure),
        "server_died", r->server_died ? Py_True : Py_False, "stopped", r->stopped ? Py_True : Py_False);
    if (dict && (add_histograms(dict, r) || add_counts(dict, r)))
        Py_CLEAR(dict);
    return dict;
}
