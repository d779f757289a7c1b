/* The relay's own part of the command line. */
#ifndef GP_RELAY_OPTIONS_H
#define GP_RELAY_OPTIONS_H

#include "net/socket.h"
#include "process/arguments.h"
#include "relay/pace.h"

struct gp_error;

#define GP_RELAY_USAGE                                                                                       \
    GP_ARGUMENTS_USAGE " --target ipv4:ADDRESS:PORT | ipv6:[ADDRESS]:PORT | unix:/PATH [--delay NS] "        \
                       "[--jitter NS] [--rate BYTES_PER_S] [--idle NS] [--seed N]"

struct gp_relay_options {
    struct gp_arguments arguments;
    struct gp_endpoint target;
    struct gp_link_opts link;
};

/* GP_ERROR_INVALID names the argument. Keeps pointers into argv. */
int gp_relay_options_parse(struct gp_relay_options *options, int argc, char *const *argv,
                           struct gp_error *err);

#endif
