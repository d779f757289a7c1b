/* One child process: spawned by exec into its own process group (Ctrl-C in a terminal reaches the parent
 * alone), with a control socket on descriptor 3 (GP_CHILD_CONTROL_FD) and the end of its output kept in
 * memory.
 *
 * The child is expected to die when the control socket reaches end of file, so it cannot outlive its parent;
 * no parent-death signal is used, for that fires when the spawning *thread* ends. A handle belongs to the
 * process that made it: in a forked child gp_child_dead says so, every other call but gp_child_abandon fails,
 * and stop and destroy only close its descriptors. Calls from several threads are safe. */
#ifndef GP_PROCESS_CHILD_H
#define GP_PROCESS_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_error;
struct gp_child;
struct gp_memory;

#define GP_CHILD_CONTROL_FD 3
#define GP_CHILD_FILES_FD 4 /* of the first file, the next one's is 5 */
#define GP_CHILD_FILES_MAX 8u

struct gp_child_opts {
    const char *const *argv; /* NULL-terminated; argv[0] is the path of the executable */
    const char *const *env;  /* NULL-terminated "NAME=value"; NULL: the parent's environment */
    /* What it is to read and nobody is to see on a command line, in an environment or on a disk: as open
     * memory files. */
    const struct gp_memory *files;
    size_t file_count;
};

int gp_child_create(struct gp_child **child, const struct gp_child_opts *opts, struct gp_error *err);

pid_t gp_child_pid(const struct gp_child *child);
int gp_child_pidfd(const struct gp_child *child); /* readable once the child is dead; owned by the handle */
int gp_child_control_fd(const struct gp_child *child); /* the parent's end; owned by the handle */

/* Whether the child is dead, and then why, as in "killed by SIGKILL" or "exited with code 1" (at most `size`
 * bytes with the final zero). Does not wait. */
bool gp_child_dead(const struct gp_child *child, char *reason, size_t size);

/* The last bytes the child wrote, cut at a line's start where there is one. Gives their number. */
size_t gp_child_stdout_tail(const struct gp_child *child, char *text, size_t size);
size_t gp_child_stderr_tail(const struct gp_child *child, char *text, size_t size);

/* Fill `err` with GP_ERROR_DIED: pid, reason and last stderr lines. Returns -1. */
int gp_child_died(const struct gp_child *child, struct gp_error *err);

/* Wait until it is dead, for at most timeout_ns; whether it is. */
bool gp_child_wait(const struct gp_child *child, uint64_t timeout_ns);

/* Shut the control socket down (the child's signal to leave), give it `grace_ns`, then SIGKILL its process
 * group, and reap it. Takes at most grace_ns plus the kernel's time to kill, also when the child is stopped.
 * Idempotent. Descriptors stay open until abandon or destroy; threads waiting on them wake up. */
void gp_child_stop(struct gp_child *child, uint64_t grace_ns);

/* Close the descriptors: in a forked child, so that the parent's death still reaches the child; in its own
 * process when it was stopped (else nothing is done) and no other thread is in any of these calls. Its last
 * words are gone then. */
void gp_child_abandon(struct gp_child *child);

void gp_child_destroy(struct gp_child *child); /* stops it first, with no grace */

#endif
