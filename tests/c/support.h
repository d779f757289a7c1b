/* What C tests share that talk to a real server: starting the server executable, and the requests it
 * understands.
 *
 *   struct test_server server;
 *   test_server_start(&server, (const char *[]){"--model", "thread", NULL});   NULL for no further arguments
 *   ... server.target is what gp_client_opts wants, server.port and server.pid are there too ...
 *   test_server_stop(&server);                                                 SIGTERM, and it must end in 10
 * s
 *
 * The executable is the one that the environment variable GP_SERVER names (meson sets it). Whatever goes
 * wrong ends the test: these functions do not return errors. */
#ifndef GP_TESTS_SUPPORT_H
#define GP_TESTS_SUPPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct test_server {
    pid_t pid;
    unsigned port;
    char target[64]; /* "ipv4:127.0.0.1:PORT" */
};

/* Returns when it listens. To have a given port, pass --listen 127.0.0.1:PORT among the arguments. */
void test_server_start(struct test_server *server, const char *const *arguments);
void test_server_stop(struct test_server *server);
void test_server_kill(
    struct test_server *server); /* SIGKILL, and wait for its end; stop does nothing after it */

/* A serialized grpc.testing.SimpleRequest with an empty payload asking for a response of so many bytes.
 * Returns its size, at most TEST_REQUEST_MAX. */
#define TEST_REQUEST_MAX 16
size_t test_request(uint8_t *buffer, uint32_t response_bytes);

#define TEST_UNARY "/grpc.testing.BenchmarkService/UnaryCall"
#define TEST_BIDI "/grpc.testing.BenchmarkService/StreamingCall"
#define TEST_CLIENT_STREAM "/grpc.testing.BenchmarkService/StreamingFromClient"
#define TEST_SERVER_STREAM "/grpc.testing.BenchmarkService/StreamingFromServer"
#define TEST_BIDI_FREE "/grpc.testing.BenchmarkService/StreamingBothWays"

#endif
