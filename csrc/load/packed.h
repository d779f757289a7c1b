/* The counts of a sparse histogram in two or three bytes each, for histograms that are many and long kept: a
 * window a second of a run of hours. Entries are as gp_histogram_export gives them, in rising order of slot.
 *
 * All zeros is an empty one. */
#ifndef GP_LOAD_PACKED_H
#define GP_LOAD_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"

struct gp_packed {
    uint8_t *bytes;
    size_t size, count; /* bytes; entries */
};

struct gp_packed_reader {
    const uint8_t *at, *end;
    uint64_t slot;
};

/* -1 when out of memory: it is then empty. */
int gp_packed_init(struct gp_packed *packed, const struct gp_histogram_entry *entries, size_t count);
int gp_packed_from_histogram(struct gp_packed *packed, const struct gp_histogram *histogram);

/* Both together in `into`; -1 when out of memory: `into` then stays as it was. */
int gp_packed_add(struct gp_packed *into, const struct gp_packed *from);

struct gp_packed_reader gp_packed_read(const struct gp_packed *packed);
bool gp_packed_next(struct gp_packed_reader *reader, struct gp_histogram_entry *entry); /* false at the end */

void gp_packed_fini(struct gp_packed *packed);

#endif
