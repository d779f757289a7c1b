/* How far a spill queue has been delivered, kept on disk beside it. Two places are written in turn, so that
 * one that was torn by a crash leaves the one before. */
#ifndef GP_LOAD_SPILL_MARK_H
#define GP_LOAD_SPILL_MARK_H

#include <stdbool.h>
#include <stdint.h>

struct gp_error;

struct gp_spill_mark {
    uint64_t generation; /* of this writing; 0: there is none */
    uint64_t epoch;      /* how often the queue has been opened */
    uint64_t done;       /* in the log: all before it was delivered */
    uint64_t begun;      /* all from here on was never handed out for delivery */
};

/* The newer sound one of the two; generation 0 when neither is. -1: cannot be read. */
int gp_spill_mark_read(int fd, struct gp_spill_mark *mark, struct gp_error *err);

/* Writes it as the next generation. `sync`: it is on the disk when this returns. */
int gp_spill_mark_write(int fd, struct gp_spill_mark *mark, bool sync, struct gp_error *err);

#endif
