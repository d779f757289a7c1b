/* client: what is refused before any transport is asked. */
#include "client/client.h"

#include <string.h>

#include "base/error.h"
#include "check.h"

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

int main(void)
{
    nonsense_is_refused();
    gp_client_destroy(NULL);
    return 0;
}
