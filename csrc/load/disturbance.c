/* disturbance: /proc/stat and /proc/pressure/cpu, read and parsed without allocation. */
#include "load/disturbance.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* The beginning of a file as text; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0)
        return false;
    length = read(fd, text, size - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* "cpu  user nice system idle iowait irq softirq steal guest guest_nice": the last two are inside user and
 * nice. */
bool gp_disturbance_parse_stat(const char *text, uint64_t *stolen_ticks, uint64_t *all_ticks)
{
    uint64_t kinds[8];

    if (sscanf(text,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64,
               &kinds[0], &kinds[1], &kinds[2], &kinds[3], &kinds[4], &kinds[5], &kinds[6], &kinds[7]) != 8)
        return false;
    *all_ticks = 0;
    for (int i = 0; i < 8; i++)
        *all_ticks += kinds[i];
    *stolen_ticks = kinds[7];
    return true;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345" */
bool gp_disturbance_parse_pressure(const char *text, uint64_t *pressure_us)
{
    const char *total = strncmp(text, "some ", 5) == 0 ? strstr(text, "total=") : NULL;

    return total && sscanf(total, "total=%" SCNu64, pressure_us) == 1;
}

void gp_disturbance_read(struct gp_disturbance *d)
{
    char text[512];

    *d = (struct gp_disturbance){.time_ns = gp_clock_now_ns()};
    d->ticks_known = read_text("/proc/stat", text, sizeof text) &&
                     gp_disturbance_parse_stat(text, &d->stolen_ticks, &d->all_ticks);
    d->pressure_known = read_text("/proc/pressure/cpu", text, sizeof text) &&
                        gp_disturbance_parse_pressure(text, &d->pressure_us);
}

bool gp_disturbance_steal(const struct gp_disturbance *before, const struct gp_disturbance *after,
                          double *share)
{
    if (!before->ticks_known || !after->ticks_known || after->all_ticks <= before->all_ticks ||
        after->stolen_ticks < before->stolen_ticks)
        return false;
    *share =
        (double)(after->stolen_ticks - before->stolen_ticks) / (double)(after->all_ticks - before->all_ticks);
    return true;
}

bool gp_disturbance_pressure(const struct gp_disturbance *before, const struct gp_disturbance *after,
                             double *share)
{
    if (!before->pressure_known || !after->pressure_known || after->time_ns <= before->time_ns ||
        after->pressure_us < before->pressure_us)
        return false;
    *share = (double)(after->pressure_us - before->pressure_us) * (double)GP_NS_PER_US /
             (double)(after->time_ns - before->time_ns);
    if (*share > 1)
        *share = 1; /* the two clocks are not read at once */
    return true;
}
