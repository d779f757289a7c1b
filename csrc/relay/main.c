/* grpcperf-relay: passes TCP connections on to a target as a network of some length, width and faults would.
 *
 *   parse the command line -> listen -> with a parent: Ready, and its questions answered until it is gone
 *                                    -> by hand: one line on stdout, until SIGINT or SIGTERM
 *
 * Exit codes: 0, 1 it cannot relay, 2 the command line makes no sense. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "relay/options.h"
#include "relay/relay.h"

static int fail(int code, const struct gp_error *err)
{
    fprintf(stderr, "grpcperf-relay: %s\n", err->message);
    if (code == 2)
        fputs("usage: grpcperf-relay " GP_RELAY_USAGE "\n", stderr);
    return code;
}

static void leave(int number)
{
    (void)number;
    _exit(0);
}

static void say_address(const struct gp_relay *relay, const struct gp_arguments *arguments)
{
    char address[300];

    gp_arguments_address(arguments, relay->listener.port, address, sizeof(address));
    printf("listening on %s pid %d\n", address, (int)getpid());
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct gp_relay_options options;
    static struct gp_relay relay;
    struct gp_error err;

    signal(SIGPIPE, SIG_IGN); /* a reader that is gone is an error of write */
    if (gp_relay_options_parse(&options, argc, argv, &err) < 0)
        return fail(2, &err);
    if (gp_relay_start(&relay, &options, &err) < 0)
        return fail(1, &err);
    if (options.arguments.control_fd >= 0) {
        if (gp_relay_report(&relay, options.arguments.control_fd, &err) < 0)
            return fail(1, &err);
    } else {
        signal(SIGINT, leave);
        signal(SIGTERM, leave);
        say_address(&relay, &options.arguments);
    }
    gp_relay_run(&relay);
    _exit(0); /* connections may be open, and nothing needs an orderly end */
}
