/* The short windows into which a measured window is cut: one writer appends those that are over, and other
 * threads may read them meanwhile, without anybody waiting.
 *
 *   ( append | read )*  ( merge | fold_tail )*  fini
 *
 * All zeros is an empty list. */
#ifndef GP_LOAD_WINDOWS_H
#define GP_LOAD_WINDOWS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "load/packed.h"

struct gp_window {
    uint64_t start_ns;          /* from the start of the measured window */
    uint64_t length_ns;         /* all alike, but the last: half to one and a half times as long */
    uint64_t sent;              /* calls handed to the transport inside it */
    uint64_t ok, failed;        /* completions inside it, whenever the call was sent */
    struct gp_packed latencies; /* of the measured calls that ended OK inside it */
};

struct gp_window_block;

struct gp_windows {
    _Atomic(struct gp_window_block *) block; /* has room for `count` of them, at least */
    atomic_size_t count;
};

/* `window` with the latencies of a histogram. -1 when out of memory: the window is then kept
 * without them, or not at all. */
int gp_windows_append(struct gp_windows *windows, const struct gp_window *window,
                      const struct gp_histogram *latencies);

/* Add the latencies of windows from number `from` on to a histogram (whose minimum and maximum are then the
 * edges of slots); returns the number of windows there are. From any thread, while the writer appends. */
size_t gp_windows_read(struct gp_windows *windows, size_t from, struct gp_histogram *into);

/* Once nobody else looks: */

struct gp_window *gp_windows_at(const struct gp_windows *windows, size_t index);

/* Add windows that began at the same times, by index. -1 when out of memory. */
int gp_windows_merge(struct gp_windows *into, const struct gp_windows *from);

/* A last window of a few µs would tell wild rates: one shorter than half of `length_ns` joins the one before
 * it. -1 when out of memory. */
int gp_windows_fold_tail(struct gp_windows *windows, uint64_t length_ns);

void gp_windows_fini(struct gp_windows *windows);

#endif
