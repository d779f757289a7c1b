/* arguments: the command line of children, and what follows from it for the process. */
#include "process/arguments.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"

int gp_arguments_bad(struct gp_error *err, const char *name, const char *value, const char *wanted)
{
    return gp_error_set(err, GP_ERROR_INVALID, "%s: '%s' is not %s", name, value, wanted);
}

bool gp_arguments_number(const char *text, long low, long high, long *number)
{
    char *end;

    errno = 0;
    *number = strtol(text, &end, 10);
    return end != text && *end == 0 && errno == 0 && *number >= low && *number <= high;
}

static int set_control(void *context, const char *text, struct gp_error *err)
{
    struct gp_arguments *arguments = context;
    long value;

    if (!gp_arguments_number(text, 0, INT_MAX, &value))
        return gp_arguments_bad(err, "--control", text, "a file descriptor");
    arguments->control_fd = (int)value;
    return 0;
}

static int set_listen(void *context, const char *text, struct gp_error *err)
{
    struct gp_arguments *arguments = context;
    const char *colon = strrchr(text, ':');
    bool unix_path = strncmp(text, "unix:", 5) == 0 && text[5] != 0;
    long port;

    if (!unix_path && (!colon || colon == text || !gp_arguments_number(colon + 1, 0, 65535, &port)))
        return gp_arguments_bad(err, "--listen", text,
                                "HOST:PORT with a port from 0 to 65535, or unix:/PATH");
    arguments->listen = text;
    return 0;
}

static int set_cpus(void *context, const char *text, struct gp_error *err)
{
    struct gp_arguments *arguments = context;
    const char *rest = text;

    arguments->cpu_count = 0;
    for (;;) {
        char *end;
        unsigned long cpu = strtoul(rest, &end, 10);
        if (end == rest || *rest == '-' || cpu >= GP_ARGUMENTS_MAX_CPUS ||
            arguments->cpu_count == GP_ARGUMENTS_MAX_CPUS || (*end != 0 && *end != ','))
            return gp_arguments_bad(err, "--cpus", text, "a list of CPU numbers like 0,1");
        arguments->cpus[arguments->cpu_count++] = (unsigned)cpu;
        if (*end == 0)
            return 0;
        rest = end + 1;
    }
}

static const struct gp_argument *find(const struct gp_argument *among, const char *name)
{
    while (among->name && strcmp(among->name, name) != 0)
        among++;
    return among->name ? among : NULL;
}

int gp_arguments_parse(struct gp_arguments *arguments, int argc, char *const *argv,
                       const struct gp_argument *own, void *context, struct gp_error *err)
{
    static const struct gp_argument common[] = {
        {"--control", set_control},
        {"--listen", set_listen},
        {"--cpus", set_cpus},
        {NULL, NULL},
    };

    *arguments = (struct gp_arguments){.control_fd = -1, .listen = "127.0.0.1:0"};
    for (int i = 1; i < argc; i += 2) {
        const struct gp_argument *mine = find(own, argv[i]), *argument = mine ? mine : find(common, argv[i]);
        if (!argument)
            return gp_error_set(err, GP_ERROR_INVALID, "unknown argument '%s'", argv[i]);
        if (i + 1 == argc)
            return gp_error_set(err, GP_ERROR_INVALID, "%s needs a value", argv[i]);
        if (argument->set(mine ? context : arguments, argv[i + 1], err) < 0)
            return -1;
    }
    return 0;
}

int gp_arguments_use_cpus(const struct gp_arguments *arguments, struct gp_error *err)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (size_t i = 0; i < arguments->cpu_count; i++)
        CPU_SET(arguments->cpus[i], &set);
    if (arguments->cpu_count && sched_setaffinity(0, sizeof(set), &set) < 0)
        return gp_error_errno(err, "cannot run on the CPUs given by --cpus");
    return 0;
}

void gp_arguments_raise_fd_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

void gp_arguments_address(const struct gp_arguments *arguments, int port, char *text, size_t size)
{
    const char *colon = strrchr(arguments->listen, ':');

    if (port == 0)
        snprintf(text, size, "%s", arguments->listen);
    else
        snprintf(text, size, "%.*s:%d", (int)(colon - arguments->listen), arguments->listen, port);
}
