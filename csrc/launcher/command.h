/* The command that is launched: its birth, and its output on the way into files that keep the end of it. */
#ifndef GP_LAUNCHER_COMMAND_H
#define GP_LAUNCHER_COMMAND_H

#include <sys/types.h>

struct gp_error;

struct gp_command_opts {
    char *const *argv;        /* argv[0] is looked for in the PATH of env */
    char **env;               /* NULL-terminated "NAME=value" */
    const char *folder;       /* to start in; NULL: this process's */
    int stdout_fd, stderr_fd; /* memory files for its output */
};

struct gp_command {
    pid_t pid; /* also when it could not be run: then it has to be reaped */
    struct gp_command_pipe {
        int from; /* what it writes to; -1 after its end */
        int to;
    } out, err;
};

/* Start it: in this process's group, with no signal blocked or ignored, all descriptors but 0, 1 and 2 those
 * that are not close-on-exec, and killed should this process be. -1 when it cannot be run. For a process with
 * one thread. */
int gp_command_start(struct gp_command *command, const struct gp_command_opts *opts, struct gp_error *err);

/* Move on what it has written, without waiting. */
void gp_command_drain(struct gp_command *command);

void gp_command_fini(struct gp_command *command); /* closes the pipes */

#endif
