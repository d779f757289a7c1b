/* Python's description of an open loop's schedule (the dict Schedule in _engine.pyi)
 * as the load room wants it. */
#ifndef GP_PYTHON_SCHEDULE_H
#define GP_PYTHON_SCHEDULE_H

#include "python/engine.h"

#include "load/run.h"

struct schedule_opts {
    struct gp_rate_step *steps; /* owned */
    size_t step_count;
    enum gp_arrival arrival;
    uint64_t seed;
    enum gp_catch_up catch_up;
};

int schedule_opts_init(struct schedule_opts *schedule, PyObject *dict); /* -1 with an exception */
void schedule_opts_fini(struct schedule_opts *schedule);                /* also after a failed init */

/* The module's function schedule_times. */
PyObject *schedule_times(PyObject *module, PyObject *args, PyObject *keywords);

#endif
