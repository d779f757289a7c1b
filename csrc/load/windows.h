/* The short windows into which a measured window is cut: one writer appends those that are over, and other
 * threads may read them meanwhile, without the writer waiting for them. However long the run, there are only
 * so many: when they have become many they are joined by pairs, so that each is twice as long from then on.
 *
 *   ( append halve | read )*  ( join | merge | fold_tail )*  fini
 *
 * All zeros is an empty list. */
#ifndef GP_LOAD_WINDOWS_H
#define GP_LOAD_WINDOWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "load/packed.h"

#define GP_WINDOWS_MOST                                                                                      \
    128u /* about 5 KB each: less than 1 MiB for each load thread of a run of any length */

struct gp_window {
    uint64_t start_ns;          /* from the start of the measured window */
    uint64_t length_ns;         /* all alike, but the last: half to one and a half times as long */
    uint64_t sent;              /* calls handed to the transport inside it */
    uint64_t ok, failed;        /* completions inside it, whenever the call was sent */
    struct gp_packed latencies; /* of the measured calls that ended OK inside it */
};

struct gp_windows {
    struct gp_window *windows; /* made with the first of them */
    atomic_size_t count;
    atomic_bool busy; /* somebody reads or joins them */

    /* Kept for the reader, who is one at a time. */
    size_t seen;             /* windows that have been read */
    struct gp_packed unread; /* what has not, though the window it was joined to has */
};

/* `window` with the latencies of a histogram. -1 when out of memory: the window is then kept
 * without them, or not at all. */
int gp_windows_append(struct gp_windows *windows, const struct gp_window *window,
                      const struct gp_histogram *latencies);

/* After each append. 1: the windows have been joined by pairs, and the next one is to be as long as these.
 * 0: not yet. -1: as 1, but out of memory; latencies are missing from some. */
int gp_windows_halve(struct gp_windows *windows);

/* Add the latencies of windows that have not been read to a histogram (whose minimum and maximum are then the
 * edges of slots). By one thread at a time, any, while the writer appends. */
void gp_windows_read(struct gp_windows *windows, struct gp_histogram *into);

/* Once nobody else looks: */

struct gp_window *gp_windows_at(const struct gp_windows *windows, size_t index);

/* Each even one with the odd one behind it, if there is one. -1 when out of memory. */
int gp_windows_join(struct gp_windows *windows);

/* Add windows that began at the same times, by index. -1 when out of memory. */
int gp_windows_merge(struct gp_windows *into, const struct gp_windows *from);

/* A last window of a few µs would tell wild rates: one shorter than half of `length_ns` joins the one before
 * it. -1 when out of memory. */
int gp_windows_fold_tail(struct gp_windows *windows, uint64_t length_ns);

void gp_windows_fini(struct gp_windows *windows);

#endif
