/* All that descends from this process, however it detached itself, and the end of it all. */
#ifndef GP_LAUNCHER_FAMILY_H
#define GP_LAUNCHER_FAMILY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* From now on descendants whose parent ends become children of this process. -1 with errno. */
int gp_family_adopt(void);

/* Take leave of the children that have ended. Whether `wanted` was among them;
 * `status` is then as waitpid's. */
bool gp_family_reap(pid_t wanted, int *status);

/* SIGKILL every descendant, until none is left or the time is over. For a process with one thread. Like
 * gp_family_reap, tells whether and how `wanted` ended. */
bool gp_family_kill(pid_t wanted, int *status, uint64_t timeout_ns);

#endif
