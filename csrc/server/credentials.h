/* What the server shows its clients, and wants of them: nothing, or TLS. */
#ifndef GP_SERVER_CREDENTIALS_H
#define GP_SERVER_CREDENTIALS_H

#include <grpc/grpc.h>

struct gp_error;
struct gp_options;

/* NULL when a file cannot be read. What is in the files gRPC judges only when it is to listen. */
grpc_server_credentials *gp_credentials_create(const struct gp_options *options, struct gp_error *err);

#endif
