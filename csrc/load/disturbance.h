/* What others did to the CPUs of this machine meanwhile: two readings of the kernel's counters, and their
 * difference. Costs tens of µs a reading, so never on a load thread. */
#ifndef GP_LOAD_DISTURBANCE_H
#define GP_LOAD_DISTURBANCE_H

#include <stdbool.h>
#include <stdint.h>

struct gp_disturbance {
    uint64_t time_ns;
    bool ticks_known, pressure_known;
    uint64_t stolen_ticks, all_ticks; /* of all CPUs, since boot (/proc/stat) */
    uint64_t pressure_us;             /* time in which some task waited for a CPU (/proc/pressure/cpu) */
};

void gp_disturbance_read(struct gp_disturbance *disturbance);

/* The share of the machine's CPU time that its hypervisor gave to others; false when not known. */
bool gp_disturbance_steal(const struct gp_disturbance *before, const struct gp_disturbance *after,
                          double *share);

/* The share of the time in which some task of this machine waited for a CPU; false when not known. */
bool gp_disturbance_pressure(const struct gp_disturbance *before, const struct gp_disturbance *after,
                             double *share);

/* For tests: the same from the files' text. */
bool gp_disturbance_parse_stat(const char *text, uint64_t *stolen_ticks, uint64_t *all_ticks);
bool gp_disturbance_parse_pressure(const char *text, uint64_t *pressure_us);

#endif
