/* When calls are to be sent: a pure function of rate, arrival and seed. Never corrected by what happens to
 * the calls.
 *
 *   init  next*
 *
 * How it is made: points of a process with one call per unit (constant: 0, 1, 2, ...; poisson: gaps are
 * exponential with mean 1; uniform: gaps are uniform in [0, 2)) are carried over to time by the inverse of
 * the number of calls expected until then, the integral of the rate (E. Çinlar, Introduction to Stochastic
 * Processes, 1975, chapter 4.7). So steps and ramps need no rules of their own: with constant arrivals a step
 * holds rate × length calls, and Poisson stays Poisson across its edges.
 *
 * Positions are sums in fixed point of 2^-62 calls, and each time is computed from its position alone: errors
 * do not add up. A call of the first week is right to the nanosecond.
 *
 * There is one schedule for all threads of a run. With `parts` threads, part k has the calls k, k + parts,
 * ... of it: each thread makes the whole sequence (about 10 ns a call) and skips what is others'. Poisson
 * processes of their own with rate / parts would merge into Poisson as well, and be cheaper, but another
 * number of threads would be another schedule, and for uniform gaps it would not even be the same process. */
#ifndef GP_LOAD_SCHEDULE_H
#define GP_LOAD_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

enum gp_arrival { GP_ARRIVAL_CONSTANT, GP_ARRIVAL_POISSON, GP_ARRIVAL_UNIFORM };

/* A stretch of time in which the rate goes from one value to another in a straight line, or stays. */
struct gp_rate_step {
    double from_rps, to_rps; /* calls per second, 0 or more */
    uint64_t length_ns;
};

struct gp_schedule_opts {
    enum gp_arrival arrival;
    const struct gp_rate_step *steps; /* at least one, not owned; the last one's to_rps goes on for ever */
    size_t step_count;
    uint64_t seed;
    uint32_t part, parts; /* of how many */
};

typedef unsigned __int128 gp_position; /* calls, in fixed point */
#define GP_POSITION_BITS 62            /* of the fraction */

struct gp_schedule {
    struct gp_schedule_opts opts;
    struct gp_random random;
    gp_position at; /* of the next call */

    size_t step; /* the one under way; step_count: after the last */
    uint64_t step_start_ns;
    gp_position step_start, step_end;
    double from_per_ns, slope; /* the rate at its start, and by how much it rises per ns */
    double ns_per_call;        /* where it stays */
};

void gp_schedule_init(struct gp_schedule *schedule, const struct gp_schedule_opts *opts);

/* When the next call of this part is intended, in ns from the start of the schedule: never earlier than the
 * one before. UINT64_MAX: the rate is 0 from now on. */
uint64_t gp_schedule_next_ns(struct gp_schedule *schedule);

#endif
