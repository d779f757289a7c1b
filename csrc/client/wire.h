/* What the parts of the transport "wire" share: wire_client.c (the seam and waiting), wire_calls.c (calls
 * that no connection has), wire_link.c (one connection from socket to close), wire_slots.c (keeping as many
 * of them as were asked for), wire_keepalive.c (whether they are still there), wire_opts.c (what was asked
 * for). */
#ifndef GP_CLIENT_WIRE_H
#define GP_CLIENT_WIRE_H

#include <sys/types.h>
#include <sys/uio.h>

#include "base/error.h"
#include "client/causes.h"
#include "client/pool.h"
#include "client/transport.h"
#include "client/waits.h"
#include "net/poller.h"
#include "net/stream.h"
#include "wire/connection.h"

#define WIRE_READ_BYTES (256u << 10)
#define WIRE_PIECES 256u
#define WIRE_NONE UINT32_MAX

enum wire_state {
    WIRE_CONNECTING,
    WIRE_HANDSHAKE, /* of TLS */
    WIRE_GREETING,  /* HTTP/2: until the peer's SETTINGS */
    WIRE_OPEN,
    WIRE_LEAVING, /* takes no more calls and goes when its last has ended */
    WIRE_CLOSED,
};

/* One connection. */
struct wire_link {
    struct gp_stream stream;
    struct gp_wire *wire; /* from WIRE_GREETING on */
    struct wire_link *next_dirty, *next_more, *next_closed;
    uint64_t began_ns;
    uint64_t heard_ns;    /* when something came last */
    uint64_t asked_ns;    /* when a PING was sent that waits for its answer; 0: none does */
    uint32_t index;       /* among client->links */
    uint32_t slot;        /* which of the connections asked for; WIRE_NONE once it is leaving */
    uint32_t place;       /* in client->open; WIRE_NONE: it is not there */
    uint32_t outstanding; /* calls, when last looked at */
    uint64_t taken;       /* calls that it was given so far */
    uint8_t state;
    bool dirty;   /* has something to write */
    bool more;    /* has something to read that the poller does not know of */
    bool blocked; /* waits to be writable */
    bool stuffed; /* takes no calls until it is written to */
    bool mute;    /* writing has failed; reading will tell why */
};

/* Connections that were set up, and how long it took. */
struct wire_setups {
    uint64_t count, min_ns, max_ns, sum_ns;
};

/* One of the connections asked for: set up, kept, set up again. */
struct wire_slot {
    struct wire_link *link; /* NULL: waits to be opened */
    uint64_t retry_ns;      /* when; UINT64_MAX: it stands in the queue for it already */
    uint32_t failures;      /* in a row */
    bool was_ready;
};

struct wire_client {
    struct gp_client base;
    pid_t pid; /* the process that made it */
    uint64_t now_ns;

    /* what was asked for */
    struct gp_request request; /* our own copy, without the messages */
    uint32_t window, max_message_bytes;
    uint64_t calls_per_connection; /* UINT64_MAX: any number */
    struct gp_client_keepalive keepalive;
    struct gp_endpoint endpoint;
    struct gp_tls *tls;
    char *target, *authority;

    /* connections */
    struct wire_slot *slots;
    uint32_t slot_count;
    uint32_t *queue; /* slots to be opened next: a ring */
    uint32_t queue_first, queue_count;
    uint32_t resting; /* slots that wait for their retry_ns */
    uint32_t setting_up;
    bool ever_ready;
    uint64_t keepalive_ns;    /* when quiet connections are looked for next */
    uint64_t scan_ns;         /* when slots are looked through next */
    struct wire_link **links; /* by index; NULL where free */
    uint32_t *free_links;
    uint32_t link_count, free_count;
    struct wire_link **open;
    struct gp_pool pool; /* over them */
    uint32_t stuffed;    /* connections that would be open if their peers read */
    unsigned source;     /* which loopback address to connect from; 0: the kernel's choice */
    struct wire_link *dirty, *more, *closed;
    char failure[GP_CLIENT_CAUSE_BYTES]; /* why the last connection could not be set up */

    /* calls */
    struct gp_calls *calls;
    struct gp_waits waits;
    uint64_t produced, taken; /* finished by connections; of them, taken in */
    uint32_t eventful;        /* calls in flight that were sent again, or have waited for a connection */
    bool ending, cancelled;

    /* what is told */
    uint32_t connected, reconnects;
    uint64_t retried, tls_resumed;
    uint64_t messages_sent, payload_sent, messages_received; /* of connections that are gone */
    struct wire_setups setups;
    struct gp_causes causes;

    struct gp_poller poller;
    struct iovec pieces[WIRE_PIECES];
    uint8_t *buffer; /* WIRE_READ_BYTES: what is read lies here until it is understood */
};

/* wire_opts.c */
int wire_opts_copy(struct wire_client *client, const struct gp_client_opts *opts, struct gp_error *err);
void wire_opts_free(struct wire_client *client);

/* wire_link.c */

/* Begin to connect. NULL with the cause: could not even begin. */
struct wire_link *wire_link_open(struct wire_client *client, uint32_t slot, struct gp_error *err);
void wire_link_ready(struct wire_client *client, struct wire_link *link, const struct gp_ready *ready);
void wire_link_read(struct wire_client *client, struct wire_link *link);
void wire_link_flush(struct wire_client *client, struct wire_link *link);
void wire_link_mark_dirty(struct wire_client *client, struct wire_link *link);

void wire_link_submit(struct wire_client *client, struct wire_link *link, uint32_t id);

/* Its calls have changed: those that finished are counted, with their cause. */
void wire_link_account(struct wire_client *client, struct wire_link *link);

/* It is gone, for this cause: its calls end. The memory stays until wire_link_bury. */
void wire_link_lose(struct wire_client *client, struct wire_link *link, const char *cause);
void wire_link_close(struct wire_client *client, struct wire_link *link);
void wire_link_bury(struct wire_client *client);

/* wire_slots.c */
int wire_slots_create(struct wire_client *client, const struct gp_client_opts *opts);
void wire_slots_destroy(struct wire_client *client);
void wire_slots_tend(struct wire_client *client); /* open what may be opened, give up what takes too long */
uint64_t wire_slots_due_ns(const struct wire_client *client); /* when to tend next */

/* A connection is open: it takes calls. */
void wire_slots_opened(struct wire_client *client, struct wire_link *link);
/* It has been given all the calls it was to have: another takes its slot while they go on. */
void wire_slots_spent(struct wire_client *client, struct wire_link *link);
/* It takes no more, while it lives on (`leaving`: its slot opens another at once) or not. */
void wire_slots_leaving(struct wire_client *client, struct wire_link *link);
void wire_slots_lost(struct wire_client *client, struct wire_link *link, const char *cause);
void wire_slots_stuffed(struct wire_client *client, struct wire_link *link, bool stuffed);

/* Whether a connection may soon be open that calls can wait for. */
static inline bool wire_is_hopeful(const struct wire_client *client)
{
    return client->setting_up > 0 || client->queue_count > 0 || client->stuffed > 0;
}

/* wire_keepalive.c */
void wire_keepalive_opened(struct wire_client *client, struct wire_link *link);
void wire_keepalive_tend(struct wire_client *client); /* ask the quiet ones, give up the silent ones */

static inline void wire_keepalive_heard(struct wire_link *link, uint64_t now_ns)
{
    link->heard_ns = now_ns;
    link->asked_ns = 0;
}

/* wire_calls.c */
bool wire_calls_place(struct wire_client *client, uint32_t id); /* on the next that takes a call, if any */
void wire_calls_tend_held(struct wire_client *client); /* calls that wait for a connection: send or fail */
void wire_calls_fail_held(struct wire_client *client, enum gp_class class);
void wire_calls_expire(struct wire_client *client);           /* end those whose deadline has come */
uint64_t wire_calls_due_ns(const struct wire_client *client); /* when the next of these is due */
size_t wire_calls_take(struct wire_client *client, struct gp_event *events, size_t capacity);

#endif
