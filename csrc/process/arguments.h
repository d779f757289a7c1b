/* The part of the command line that all our child executables share, and the words in which they refuse one.
 * Options are pairs of a name and a value. */
#ifndef GP_PROCESS_ARGUMENTS_H
#define GP_PROCESS_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

struct gp_error;

#define GP_ARGUMENTS_MAX_CPUS 1024

#define GP_ARGUMENTS_USAGE "[--control FD] [--listen HOST:PORT | unix:/PATH] [--cpus 0,1]"

struct gp_arguments {
    int control_fd;                       /* -1: none, a person is watching */
    const char *listen;                   /* "host:port" or "unix:/path" */
    unsigned cpus[GP_ARGUMENTS_MAX_CPUS]; /* run on these only; none given: wherever the parent may */
    size_t cpu_count;
};

/* What one executable understands besides. */
struct gp_argument {
    const char *name;
    int (*set)(void *context, const char *value, struct gp_error *err);
};

/* Go through argv; `own` ends with a name that is NULL, and its functions get `context`. GP_ERROR_INVALID
 * names the argument. Keeps pointers into argv. */
int gp_arguments_parse(struct gp_arguments *arguments, int argc, char *const *argv,
                       const struct gp_argument *own, void *context, struct gp_error *err);

/* For the functions of `own`: the whole text as a number within bounds, and the
 * message that refuses a value. */
bool gp_arguments_number(const char *text, long low, long high, long *number);
int gp_arguments_bad(struct gp_error *err, const char *name, const char *value, const char *wanted);

/* This process runs on the CPUs given. */
int gp_arguments_use_cpus(const struct gp_arguments *arguments, struct gp_error *err);

/* As many descriptors as may be: each connection takes one. */
void gp_arguments_raise_fd_limit(void);

/* What is listened on, now that the port is known (0: a Unix socket). */
void gp_arguments_address(const struct gp_arguments *arguments, int port, char *text, size_t size);

#endif
