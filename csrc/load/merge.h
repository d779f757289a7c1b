/* From the records of load threads that have ended to the one result of their run. */
#ifndef GP_LOAD_MERGE_H
#define GP_LOAD_MERGE_H

#include <stdint.h>

struct gp_error;
struct gp_run_result;
struct gp_timeline;
struct gp_worker;

/* Takes the histograms and windows of the workers over into the result. -1 when memory ran out for what was
 * recorded. */
int gp_merge(struct gp_run_result *result, struct gp_worker *workers, uint32_t count,
             const struct gp_timeline *timeline, struct gp_error *err);

#endif
