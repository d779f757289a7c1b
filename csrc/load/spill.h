/* A queue of messages on disk, for those that nobody took in time: an append-only log of records, each with
 * its length, its sequence number and a checksum, which outlives the process.
 *
 *   create ( append | take (done | give_back) )* destroy
 *
 * What a crash leaves is found again by create: a record that was cut short at the end is cut off (append had
 * not returned), all that was not delivered is handed out again. A record that may have been delivered
 * already, since it was out when the process ended, comes marked as repeated. So everything appended is
 * delivered at least once, and exactly once or marked.
 *
 * When all is delivered the log becomes empty. A crash of the process loses nothing under any policy; what a
 * crash of the machine may lose is said by sync_every. All functions may be called by any thread. */
#ifndef GP_LOAD_SPILL_H
#define GP_LOAD_SPILL_H

#include <stdbool.h>
#include <stdint.h>

struct gp_error;
struct gp_spill;

#define GP_SPILL_BYTES 16379u    /* the longest message */
#define GP_SPILL_EPOCH_SHIFT 40u /* sequence numbers of the n-th opening begin at n << this */

struct gp_spill_opts {
    const char *directory; /* that exists; for one process at a time */
    uint32_t sync_every;   /* records between two fdatasync: 0 never; 1 each, before append returns, and what
                              is handed out is noted on the disk before take returns */
    uint32_t most_out;     /* records that may be out at a time; 0: 64 */
};

struct gp_spill_record {
    uint64_t sequence;
    uint64_t offset; /* in the log */
    uint32_t size;
    bool repeated;
    uint8_t message[GP_SPILL_BYTES];
};

struct gp_spill_stats {
    uint64_t first_sequence;       /* of this opening */
    uint64_t waiting;              /* records in it, those that are out too */
    uint64_t recovered, cut_bytes; /* found by create, and cut off */
    uint64_t appended, appended_bytes, delivered;
    uint64_t refused; /* times that append had no room */
    uint64_t syncs, sync_ns;
};

int gp_spill_create(struct gp_spill **spill, const struct gp_spill_opts *opts, struct gp_error *err);

/* -1: it is not in the queue, and the log is as it was: no room (os_errno ENOSPC, EDQUOT, EFBIG), or the disk
 * fails. */
int gp_spill_append(struct gp_spill *spill, uint64_t sequence, bool repeated, const void *message,
                    uint32_t size, struct gp_error *err);

/* The oldest that is not out, given back ones first. 1; 0: none; -1: the log cannot be read. */
int gp_spill_take(struct gp_spill *spill, struct gp_spill_record *record, struct gp_error *err);
void gp_spill_done(struct gp_spill *spill, const struct gp_spill_record *record); /* it was delivered */
void gp_spill_give_back(struct gp_spill *spill,
                        const struct gp_spill_record *record); /* it may have been, or not */

void gp_spill_stats(struct gp_spill *spill, struct gp_spill_stats *stats);
void gp_spill_destroy(struct gp_spill *spill);

#endif
