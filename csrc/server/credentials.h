/* What the server shows its clients and wants of them, and what it shows the next server when it is that
 * one's client: nothing, or TLS. */
#ifndef GP_SERVER_CREDENTIALS_H
#define GP_SERVER_CREDENTIALS_H

#include <grpc/grpc.h>

struct gp_error;
struct gp_options;

/* NULL when a file cannot be read. What is in the files gRPC judges only when it is to listen. */
grpc_server_credentials *gp_credentials_create(const struct gp_options *options, struct gp_error *err);
grpc_channel_credentials *gp_credentials_of_client(const struct gp_options *options, struct gp_error *err);

#endif
