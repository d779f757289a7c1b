/* grpcperf-mirror: a server that answers every call of BenchmarkService without doing work.
 *
 *   parse the command line -> listen -> with a parent: Ready, and its questions answered until it is gone
 *                                    -> by hand: one line on stdout, until SIGINT or SIGTERM
 *
 * Exit codes: 0, 1 it cannot serve, 2 the command line makes no sense. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "mirror/mirror.h"
#include "process/arguments.h"

static int fail(int code, const struct gp_error *err)
{
    fprintf(stderr, "grpcperf-mirror: %s\n", err->message);
    if (code == 2)
        fputs("usage: grpcperf-mirror " GP_ARGUMENTS_USAGE "\n", stderr);
    return code;
}

static void leave(int number)
{
    (void)number;
    _exit(0);
}

static void say_address(const struct gp_mirror *mirror, const struct gp_arguments *arguments)
{
    char address[300];

    gp_arguments_address(arguments, mirror->listener.port, address, sizeof(address));
    printf("listening on %s pid %d\n", address, (int)getpid());
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct gp_argument none[] = {{NULL, NULL}};
    static struct gp_arguments arguments;
    static struct gp_mirror mirror;
    struct gp_error err;

    signal(SIGPIPE, SIG_IGN); /* a reader that is gone is an error of write */
    if (gp_arguments_parse(&arguments, argc, argv, none, NULL, &err) < 0)
        return fail(2, &err);
    if (gp_mirror_start(&mirror, &arguments, &err) < 0)
        return fail(1, &err);
    if (arguments.control_fd >= 0) {
        if (gp_mirror_report(&mirror, arguments.control_fd, &err) < 0)
            return fail(1, &err);
    } else {
        signal(SIGINT, leave);
        signal(SIGTERM, leave);
        say_address(&mirror, &arguments);
    }
    gp_mirror_run(&mirror);
    _exit(0); /* connections may be open, and nothing needs an orderly end */
}
