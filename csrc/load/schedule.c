/* schedule: from points of a process with one call per unit to times. No clock, no calls. */
#include "load/schedule.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "base/clock.h"

#define ONE ((gp_position)1 << GP_POSITION_BITS)
#define FRACTION (ONE - 1)
#define NEVER ((gp_position) - 1)
#define FAR_NS 9e18 /* centuries: beyond what a clock's count holds */

/* By way of signed integers: conversions of unsigned ones branch on the top bit,
 * which is a coin toss here. */
static gp_position from_double(double calls)
{
    int64_t whole = (int64_t)calls;
    int64_t fraction = (int64_t)((calls - (double)whole) * (double)ONE);

    return ((gp_position)whole << GP_POSITION_BITS) + (gp_position)fraction;
}

static double to_double(gp_position calls)
{
    int64_t whole = (int64_t)(calls >> GP_POSITION_BITS), fraction = (int64_t)(calls & FRACTION);

    return (double)whole + (double)fraction / (double)ONE;
}

static gp_position gap(struct gp_schedule *s)
{
    switch (s->opts.arrival) {
    case GP_ARRIVAL_CONSTANT:
        break;
    case GP_ARRIVAL_POISSON:
        return from_double(gp_random_exponential(&s->random));
    case GP_ARRIVAL_UNIFORM:
        return gp_random_u64(&s->random) >> (63 - GP_POSITION_BITS);
    }
    return ONE;
}

/* Go on by so many calls of the whole schedule. */
static void skip(struct gp_schedule *s, uint32_t calls)
{
    if (s->opts.arrival == GP_ARRIVAL_CONSTANT)
        s->at += calls * ONE;
    else
        while (calls-- > 0)
            s->at += gap(s);
}

/* The step that begins where the last one ended. */
static void enter_step(struct gp_schedule *s)
{
    bool last = s->step == s->opts.step_count;
    const struct gp_rate_step *step = &s->opts.steps[last ? s->step - 1 : s->step];
    double from_rps = last ? step->to_rps : step->from_rps;
    double length_s = (double)step->length_ns / (double)GP_NS_PER_S;

    s->step_start = s->step_end;
    s->from_per_ns = from_rps / (double)GP_NS_PER_S;
    s->slope = last || step->length_ns == 0
                   ? 0
                   : (step->to_rps - from_rps) / (double)GP_NS_PER_S / (double)step->length_ns;
    s->ns_per_call = from_rps > 0 ? (double)GP_NS_PER_S / from_rps : 0;
    s->step_end = last ? NEVER : s->step_start + from_double((from_rps + step->to_rps) / 2 * length_s);
}

static void leave_step(struct gp_schedule *s)
{
    s->step_start_ns += s->opts.steps[s->step++].length_ns;
    enter_step(s);
}

void gp_schedule_init(struct gp_schedule *s, const struct gp_schedule_opts *opts)
{
    assert(opts->step_count > 0 && opts->part < opts->parts);
    *s = (struct gp_schedule){.opts = *opts};
    gp_random_init(&s->random, opts->seed);
    enter_step(s);
    if (opts->arrival == GP_ARRIVAL_CONSTANT)
        skip(s, opts->part); /* the first call of all is at 0 */
    else
        skip(s, opts->part + 1);
}

/* How long after the step's start so many of its calls are expected. Along a ramp that is the root of
 * calls = from × t + slope / 2 × t², in the form that does not cancel. */
static double time_in_step_ns(const struct gp_schedule *s, double calls)
{
    double square;

    if (s->slope == 0 || calls == 0)
        return calls * s->ns_per_call;
    square = s->from_per_ns * s->from_per_ns + 2 * s->slope * calls;
    return 2 * calls / (s->from_per_ns + sqrt(square > 0 ? square : 0));
}

uint64_t gp_schedule_next_ns(struct gp_schedule *s)
{
    gp_position at = s->at;
    double span_ns;

    while (at >= s->step_end)
        leave_step(s);
    if (s->step == s->opts.step_count && s->from_per_ns == 0)
        return UINT64_MAX;
    skip(s, s->opts.parts);
    span_ns = time_in_step_ns(s, to_double(at - s->step_start));
    if (s->step < s->opts.step_count && span_ns > (double)s->opts.steps[s->step].length_ns)
        span_ns = (double)s->opts.steps[s->step].length_ns; /* a last bit of rounding at a ramp's end */
    return span_ns < FAR_NS ? s->step_start_ns + (uint64_t)(int64_t)(span_ns + 0.5) : UINT64_MAX;
}
