/* family: the descendants of this process. Those of a child that ends become our children (the kernel's
 * subreaper), so killing all children again and again reaches every one, also those that left the process
 * group or the session. A child's number is its own until it is reaped, and nobody but us reaps. */
#include "launcher/family.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define PAUSE_NS (GP_NS_PER_MS / 2)

int gp_family_adopt(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Reap all that have ended; false when there are no children any more. */
static bool reap(pid_t wanted, bool *found, int *status)
{
    for (;;) {
        int how;
        pid_t pid = waitpid(-1, &how, WNOHANG);
        if (pid <= 0)
            return pid == 0 || errno != ECHILD;
        if (pid == wanted) {
            *status = how;
            *found = true;
        }
    }
}

bool gp_family_reap(pid_t wanted, int *status)
{
    bool found = false;
    reap(wanted, &found, status);
    return found;
}

/* "12 345 ": a number that the end of the buffer may have cut off is left for the next time. Where the kernel
 * has no such file, the process group is all that can be reached, and the parent reaches that too. */
static void kill_children(void)
{
    char text[4096];
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = '\0';
    char *rest = text, *end;
    for (long pid = strtol(rest, &end, 10); *end == ' ' && pid > 0; pid = strtol(rest = end + 1, &end, 10))
        kill((pid_t)pid, SIGKILL);
    if (fd >= 0)
        close(fd);
}

bool gp_family_kill(pid_t wanted, int *status, uint64_t timeout_ns)
{
    uint64_t begin = gp_clock_now_ns();
    bool found = false;
    while (reap(wanted, &found, status) && gp_clock_now_ns() - begin < timeout_ns) {
        kill_children();
        struct timespec pause = gp_clock_timespec(PAUSE_NS);
        nanosleep(&pause, NULL);
    }
    return found;
}
