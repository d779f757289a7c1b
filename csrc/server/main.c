/* grpcperf-server: the native server, a process that holds only what is measured.
 *
 *   parse the command line -> listen and serve -> with a parent: Ready, and its questions answered until it
 * is gone
 *                                             -> by hand: one line on stdout, until SIGINT or SIGTERM
 *
 * Exit codes: 0, 1 it cannot serve, 2 the command line makes no sense. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "server/options.h"
#include "server/reporter.h"
#include "server/server.h"

static int fail(int code, const struct gp_error *err)
{
    fprintf(stderr, "grpcperf-server: %s\n", err->message);
    if (code == 2)
        fputs(GP_OPTIONS_USAGE, stderr);
    return code;
}

/* Serve until a signal ends it; threads made later inherit the mask, so that it comes here. */
static void wait_for_signal(const sigset_t *signals)
{
    int number;
    while (sigwait(signals, &number) != 0)
        ;
}

static void say_address(const struct gp_server *server, const struct gp_options *options)
{
    char address[300];
    gp_arguments_address(&options->common, server->port, address, sizeof(address));
    printf("listening on %s pid %d\n", address, (int)getpid());
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct gp_options options;
    static struct gp_server server;
    static struct gp_reporter reporter;
    struct gp_error err;
    sigset_t signals;
    signal(SIGPIPE, SIG_IGN); /* a reader that is gone is an error of write */
    if (gp_options_parse(&options, argc, argv, &err) < 0)
        return fail(2, &err);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (gp_server_start(&server, &options, &err) < 0)
        return fail(1, &err);
    if (options.common.control_fd >= 0) {
        if (gp_reporter_start(&reporter, &server, options.common.control_fd, &err) < 0)
            return fail(1, &err);
    } else {
        say_address(&server, &options);
    }
    wait_for_signal(&signals);
    _exit(0); /* calls may be in flight, and nothing needs an orderly end */
}
