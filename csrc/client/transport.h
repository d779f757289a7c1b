/* What a transport gives to stand behind client.h. Seen inside this room only. */
#ifndef GP_CLIENT_TRANSPORT_H
#define GP_CLIENT_TRANSPORT_H

#include "client/client.h"

struct gp_transport {
    const char *name;
    int (*create)(struct gp_client **client, const struct gp_client_opts *opts, struct gp_error *err);
    int (*connect)(struct gp_client *client, uint64_t timeout_ns, const atomic_int *stop,
                   struct gp_error *err);
    void (*submit)(struct gp_client *client, const uint64_t *ids, size_t count);
    size_t (*poll)(struct gp_client *client, struct gp_event *events, size_t capacity, uint64_t until_ns);
    bool (*feeds)(const struct gp_client *client, uint64_t id, size_t size);
    bool (*feed)(struct gp_client *client, uint64_t id, const void *message, size_t size);
    uint32_t (*answers)(const struct gp_client *client, uint64_t id); /* NULL, all three: it cannot */
    void (*end)(struct gp_client *client);
    void (*cancel_all)(struct gp_client *client);
    void (*stats)(const struct gp_client *client, struct gp_client_stats *stats);
    size_t (*causes)(const struct gp_client *client,
                     struct gp_client_cause causes[GP_CLIENT_CAUSES]); /* may be NULL */
    uint64_t (*cpu_ns)(struct gp_client *client);
    bool (*cpu_known)(const struct gp_client *client, uint64_t since_ns);
    void (*destroy)(struct gp_client *client);
};

/* The first member of every transport's client. */
struct gp_client {
    const struct gp_transport *transport;
};

extern const struct gp_transport gp_core_transport, gp_wire_transport;

#endif
