/* Schedules of open loops: from Python's description, and as times for those who want to see them. */
#include "python/schedule.h"

#include "load/run.h"

static int word(PyObject *text, const char *const names[], size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (PyUnicode_Check(text) && PyUnicode_CompareWithASCIIString(text, names[i]) == 0)
            return (int)i;
    PyErr_Format(PyExc_ValueError, "no such %s: %R", what, text);
    return -1;
}

static int parse_step(PyObject *item, struct gp_rate_step *step)
{
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "a step is a tuple (from, to, seconds)");
        return -1;
    }
    if (!PyArg_ParseTuple(item, "ddO&", &step->from_rps, &step->to_rps, convert_seconds, &step->length_ns))
        return -1;
    if (step->from_rps >= 0 && step->to_rps >= 0 && step->from_rps <= 1e9 && step->to_rps <= 1e9)
        return 0;
    PyErr_SetString(PyExc_ValueError, "a rate must be from 0 to 1e9 calls per second");
    return -1;
}

static int parse_steps(struct schedule_opts *schedule, PyObject *steps)
{
    PyObject *fast = PySequence_Fast(steps, "steps is a sequence of (from, to, seconds)");
    if (!fast)
        return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
    int status = count > 0 ? 0 : -1;
    if (count == 0)
        PyErr_SetString(PyExc_ValueError, "a schedule needs a step");
    schedule->steps = PyMem_Calloc((size_t)count + 1, sizeof *schedule->steps);
    if (!schedule->steps) {
        PyErr_NoMemory();
        status = -1;
    }
    for (Py_ssize_t i = 0; i < count && status == 0; i++)
        status = parse_step(PySequence_Fast_GET_ITEM(fast, i), &schedule->steps[i]);
    Py_DECREF(fast);
    schedule->step_count = (size_t)count;
    return status;
}

int schedule_opts_init(struct schedule_opts *schedule, PyObject *dict)
{
    static const char *const arrivals[] = {
        [GP_ARRIVAL_CONSTANT] = "constant",
        [GP_ARRIVAL_POISSON] = "poisson",
        [GP_ARRIVAL_UNIFORM] = "uniform",
    };
    static const char *const policies[] = {
        [GP_CATCH_UP_NONE] = "none",
        [GP_CATCH_UP_BOUNDED] = "bounded",
        [GP_CATCH_UP_FULL] = "full",
    };
    PyObject *steps, *arrival, *seed, *catch_up;
    int which;
    *schedule = (struct schedule_opts){0};
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "a schedule is a dict");
        return -1;
    }
    if (!(steps = convert_need(dict, "steps")) || !(arrival = convert_need(dict, "arrival")) ||
        !(seed = convert_need(dict, "seed")) || !(catch_up = convert_need(dict, "catch_up")))
        return -1;
    if ((which = word(arrival, arrivals, 3, "arrival")) < 0)
        return -1;
    schedule->arrival = (enum gp_arrival)which;
    if ((which = word(catch_up, policies, 3, "catch-up policy")) < 0)
        return -1;
    schedule->catch_up = (enum gp_catch_up)which;
    return convert_u64(seed, &schedule->seed) ? parse_steps(schedule, steps) : -1;
}

void schedule_opts_fini(struct schedule_opts *schedule)
{
    PyMem_Free(schedule->steps);
    schedule->steps = NULL;
}

static PyObject *times(const struct schedule_opts *schedule, Py_ssize_t count, uint32_t part, uint32_t parts)
{
    struct gp_schedule_opts opts = {.arrival = schedule->arrival,
                                    .steps = schedule->steps,
                                    .step_count = schedule->step_count,
                                    .seed = schedule->seed,
                                    .part = part,
                                    .parts = parts};
    struct gp_schedule made;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(uint64_t));
    Py_ssize_t there = 0;
    uint64_t at_ns = 0;
    if (!bytes)
        return NULL;
    /* A bytes object's data lies 32 bytes into its allocation: aligned for uint64. */
    uint64_t *out = (uint64_t *)(void *)PyBytes_AS_STRING(bytes);
    gp_schedule_init(&made, &opts);
    while (there < count && (at_ns = gp_schedule_next_ns(&made)) != UINT64_MAX)
        out[there++] = at_ns;
    if (there < count)
        _PyBytes_Resize(&bytes, there * (Py_ssize_t)sizeof(uint64_t));
    return bytes;
}

PyObject *schedule_times(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"schedule", "count", "part", "parts", NULL};
    struct schedule_opts schedule = {0};
    uint32_t part = 0, parts = 1;
    PyObject *dict, *made = NULL;
    Py_ssize_t count;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "On|O&O&:schedule_times", names, &dict, &count,
                                     convert_u32, &part, convert_u32, &parts))
        return NULL;
    if (count < 0 || count > PY_SSIZE_T_MAX / 16 || part >= parts)
        PyErr_SetString(PyExc_ValueError, "count must not be negative, and part below parts");
    else if (!schedule_opts_init(&schedule, dict))
        made = times(&schedule, count, part, parts);
    schedule_opts_fini(&schedule);
    return made;
}
