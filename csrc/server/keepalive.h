/* TCP's keepalive on the connections of a server, which gRPC has no argument for:
 * its own is HTTP/2's PING. */
#ifndef GP_SERVER_KEEPALIVE_H
#define GP_SERVER_KEEPALIVE_H

struct gp_error;
struct gp_options;

/* Once it listens, and before it accepts: the kernel hands what is set on a listening socket on to those that
 * come from it. Does nothing when none was asked for. */
int gp_keepalive_start(const struct gp_options *options, struct gp_error *err);

#endif
