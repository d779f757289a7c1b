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

    opts.transport = "Wire";
    refused(opts, "is not known");
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

/* Connections come and go: those that are there still have their turns. */
static void turns_go_on_among_fewer_or_more(void)
{
    struct gp_pool pool;
    unsigned taken[4] = {0};

    gp_pool_init(&pool, 3);
    gp_pool_take(&pool);
    gp_pool_take(&pool);
    gp_pool_resize(&pool, 2); /* the one whose turn it was is gone */
    CHECK(gp_pool_take(&pool) == 0 && gp_pool_take(&pool) == 1 && gp_pool_take(&pool) == 0);
    gp_pool_resize(&pool, 0);
    gp_pool_resize(&pool, 4);
    for (unsigned call = 0; call < 12; call++)
        taken[gp_pool_take(&pool)]++;
    for (unsigned i = 0; i < 4; i++)
        CHECK(taken[i] == 3);
}

int main(void)
{
    nonsense_is_refused();
    each_connection_has_its_turn();
    turns_go_on_among_fewer_or_more();
    gp_client_destroy(NULL);
    return 0;
}
