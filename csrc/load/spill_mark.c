/* spill_mark: two places of a small file, told apart by their generation and believed by their checksum. */
#include "load/spill_mark.h"

#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"

#define PLACE_BYTES 64

struct place { /* as it is on disk: read only on the machine that wrote it */
    struct gp_spill_mark mark;
    uint64_t check;
};

_Static_assert(sizeof(struct place) <= PLACE_BYTES, "a place has room for it");

static uint64_t check_of(const struct gp_spill_mark *mark)
{
    return crc32(0, (const void *)mark, sizeof *mark);
}

int gp_spill_mark_read(int fd, struct gp_spill_mark *mark, struct gp_error *err)
{
    struct place place;

    *mark = (struct gp_spill_mark){0};
    for (off_t at = 0; at < 2 * PLACE_BYTES; at += PLACE_BYTES) {
        ssize_t got = pread(fd, &place, sizeof place, at);

        if (got < 0)
            return gp_error_errno(err, "cannot read how far the spill queue was delivered");
        if (got == sizeof place && place.check == check_of(&place.mark) &&
            place.mark.generation > mark->generation)
            *mark = place.mark;
    }
    return 0;
}

int gp_spill_mark_write(int fd, struct gp_spill_mark *mark, bool sync, struct gp_error *err)
{
    struct place place = {.mark = *mark};

    place.mark.generation++;
    place.check = check_of(&place.mark);
    if (pwrite(fd, &place, sizeof place, (off_t)(place.mark.generation % 2 * PLACE_BYTES)) != sizeof place ||
        (sync && fdatasync(fd) != 0))
        return gp_error_errno(err, "cannot write how far the spill queue is delivered");
    *mark = place.mark;
    return 0;
}
