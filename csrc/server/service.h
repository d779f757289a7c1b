/* The five methods of grpc.testing.BenchmarkService. */
#ifndef GP_SERVER_SERVICE_H
#define GP_SERVER_SERVICE_H

#include "server/call.h"
#include "server/server.h"

#define GP_METHOD_UNARY 0

extern const struct gp_method gp_methods[GP_METHOD_COUNT];

#endif
