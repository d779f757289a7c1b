/* client and pool: what is refused before any transport is asked, the names of classes, whose turn it is. */
#include "client/client.h"

#include <string.h>

#include "base/error.h"
#include "check.h"
#include "client/pool.h"

static const struct gp_client_opts good = {
    .transport = "core",
    .target = "ipv4:127.0.0.1:1",
    .connections = 1,
    .max_in_flight = 1,
    .request = {.method = "/a.B/C", .message = "", .message_bytes = 0},
};

static void refused(struct gp_client_opts opts, const char *word)
{
    struct gp_client *client = (struct gp_client *)"not touched yet";
    struct gp_error err = {0};

    CHECK(gp_client_create(&client, &opts, &err) == -1);
    CHECK(client == NULL);
    CHECK(err.code == GP_ERROR_INVALID);
    CHECK(strstr(err.message, word));
}

static void nonsense_is_refused(void)
{
    struct gp_client_opts opts = good;

    opts.transport = "wire";
    refused(opts, "not built yet");
    opts.transport = "carrier pigeon";
    refused(opts, "carrier pigeon");
    opts = good;
    opts.connections = 0;
    refused(opts, "0 connections");
    opts = good;
    opts.max_in_flight = 0;
    refused(opts, "0 calls in flight");
    opts = good;
    opts.request.method = "a.B/C";
    refused(opts, "a.B/C");
    opts.request.method = "/a.B";
    refused(opts, "/a.B");
    opts.request.method = NULL;
    refused(opts, "method");
}

/* gRPC's own names at gRPC's own numbers (statuscodes.md of gRPC), and ours behind them. */
static void classes_have_names(void)
{
    CHECK(strcmp(gp_class_name(GP_CLASS_OK), "OK") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)3), "INVALID_ARGUMENT") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)5), "NOT_FOUND") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)6), "ALREADY_EXISTS") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)7), "PERMISSION_DENIED") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)9), "FAILED_PRECONDITION") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)10), "ABORTED") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)11), "OUT_OF_RANGE") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_UNAVAILABLE), "UNAVAILABLE") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)15), "DATA_LOSS") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_UNAUTHENTICATED), "UNAUTHENTICATED") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_IN_FLIGHT_AT_END), "in_flight_at_end") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_TRANSPORT), "transport") == 0);
    for (unsigned class = 0; class < GP_CLASS_COUNT; class ++)
        CHECK(gp_class_name((enum gp_class) class)[0] != 0);
}

static void each_connection_has_its_turn(void)
{
    struct gp_pool pool;

    gp_pool_init(&pool, 3);
    for (unsigned call = 0; call < 10; call++)
        CHECK(gp_pool_take(&pool) == call % 3);
    gp_pool_init(&pool, 1);
    for (unsigned call = 0; call < 3; call++)
        CHECK(gp_pool_take(&pool) == 0);
}

int main(void)
{
    nonsense_is_refused();
    classes_have_names();
    each_connection_has_its_turn();
    gp_client_destroy(NULL);
    return 0;
}
