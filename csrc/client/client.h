/* The one seam between load and transports: submit calls, poll finished ones. No callbacks, and no thread of
 * its own that the caller could see; each client is used by one thread (another may have created it).
 *
 *   create  connect  ( submit | poll )*  end | cancel_all  poll*  destroy
 *
 * Every id submitted comes back from poll exactly once. */
#ifndef GP_CLIENT_CLIENT_H
#define GP_CLIENT_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call.h"
#include "client/pool.h"
#include "net/socket.h"

struct gp_error;
struct gp_client;
struct gp_message_times;
struct gp_tls_opts;

struct gp_client_arg { /* a channel argument of C core */
    const char *key;
    const char *text; /* NULL: the number counts */
    int64_t number;
};

struct gp_client_keepalive {
    uint64_t time_ns;    /* a connection so long quiet is asked by a PING; 0: never */
    uint64_t timeout_ns; /* and given up when nothing comes for so long; 0: 20 s */
    bool without_calls;  /* also when it has no call */
    struct gp_tcp_keepalive tcp;
};

struct gp_client_opts {
    const char *transport; /* "core" or "wire" */
    const char *target;    /* as gp_probe resolved it: "ipv4:127.0.0.1:50051" */
    const char *authority;
    uint32_t connections;
    uint32_t max_in_flight; /* ids are below this */
    enum gp_pick pick;      /* which connection takes the next call */
    pthread_mutex_t *lock;  /* GP_PICK_LOCKED: one for the clients of a run, not owned; NULL: it is alone */
    uint64_t calls_per_connection; /* wire: then it is replaced, and closed when they have ended; 0: never */
    struct gp_request request;
    const struct gp_tls_opts *tls;    /* NULL: plaintext */
    const struct gp_client_arg *args; /* core */
    size_t arg_count;
    uint32_t window;            /* wire: what the peer may send unasked, on a stream and on the connection;
                                   0: 4 and 16 MiB */
    uint32_t max_message_bytes; /* wire: larger ones end in RESOURCE_EXHAUSTED; 0: 4 MiB, gRPC's own */
    struct gp_client_keepalive keepalive; /* wire; core has arguments for it */
    bool gzip;                            /* wire: send messages compressed */
    bool busy_poll; /* wire: never sleep. Whether it was idle is told by the stats, not by CPU */
    /* Streams: where to note when messages came (base/message_times.h): `begin` when a call is sent, `came`
     * with each lot of messages counted in messages_received. Not owned, outlives the client; NULL: nobody
     * wants it. */
    struct gp_message_times *times;
    const void
        *owner; /* the clients of one run have the same; NULL: it stands for itself (gp_client_cpu_known) */
};

/* What the peers' SETTINGS allow now: the least of all connections. UINT32_MAX:
 * no limit, or no connection. */
struct gp_client_peer {
    uint32_t max_concurrent_streams, initial_window_size, max_frame_size, max_header_list_size;
};

void gp_client_peer_init(struct gp_client_peer *peer); /* of no connection */
void gp_client_peer_least(struct gp_client_peer *into, const struct gp_client_peer *other);

struct gp_client_stats {
    uint32_t connected;     /* connections established by connect */
    uint32_t reconnects;    /* of those that were lost */
    uint32_t alive;         /* established now */
    uint64_t opened;        /* set up in all: the first, and those in place of others */
    uint64_t messages_sent; /* handed to the transport; unary calls' count too */
    uint64_t payload_sent;  /* their bytes, as they were given */
    uint64_t messages_received;
    /* The rest is wire's; core leaves it 0. */
    uint64_t retried;           /* calls that the peer is known not to have begun, sent again elsewhere */
    uint64_t polls, idle_polls; /* times the kernel was asked for what is ready, and had nothing */
    uint64_t setups; /* connections set up, from socket to the peer's SETTINGS, and how long it took */
    uint64_t setup_min_ns, setup_max_ns, setup_sum_ns;
    uint64_t tls_resumed; /* of them, those that took up an earlier TLS session */
    struct gp_client_peer peer;
};

/* Why calls ended badly. */
#define GP_CLIENT_CAUSES 16u
#define GP_CLIENT_CAUSE_BYTES 240u

struct gp_client_cause {
    enum gp_class class;
    uint64_t calls;
    char text[GP_CLIENT_CAUSE_BYTES];
};

/* Version of the gRPC C core in use, as it gives it itself, e.g. "29.0.0". Starts nothing. */
const char *gp_client_core_version(void);

/* Copies what it needs of opts. */
int gp_client_create(struct gp_client **client, const struct gp_client_opts *opts, struct gp_error *err);

/* Establish all connections, a bounded number at a time. Wire: each counts when the peer's SETTINGS are
 * there. -1 when none could be; some missing is told by stats. `stop` is looked at about every 20 ms and
 * gives GP_ERROR_STOPPED. */
int gp_client_connect(struct gp_client *client, uint64_t timeout_ns, const atomic_int *stop,
                      struct gp_error *err);

/* Start one call for each id, on connections as `pick` says. When none is open a call waits (wire) for one
 * that is being set up, at most a second and not beyond its deadline; then, or at once when none is, it ends
 * as TRANSPORT. (Core: UNAVAILABLE.) */
void gp_client_submit(struct gp_client *client, const uint64_t *ids, size_t count);

/* Wait until a call has finished, until `until_ns` (gp_clock_now_ns) at the latest, and fill `events`;
 * returns their number. Core waits in whole milliseconds, rounded up; wire wakes at its time. A time that has
 * passed makes it look without waiting. */
size_t gp_client_poll(struct gp_client *client, struct gp_event *events, size_t capacity, uint64_t until_ns);

/* Send one message of at most GP_CLIENT_FEED_BYTES on a stream whose request is `fed`; it is copied. False:
 * the stream is not open yet, or the peer takes nothing now; try again after the next poll. The poll of such
 * a client also returns, with no event, when anything came. */
#define GP_CLIENT_FEED_BYTES 16379u
bool gp_client_feeds(const struct gp_client *client, uint64_t id, size_t size); /* whether it would */
bool gp_client_feed(struct gp_client *client, uint64_t id, const void *message, size_t size);

/* Messages that have come on such a stream while it is in flight. (Its event has those of one that ended.) */
uint32_t gp_client_answers(const struct gp_client *client, uint64_t id);

/* Let streams that have no bound end as OK after the message they are at. */
void gp_client_end(struct gp_client *client);

/* Cancel every call in flight; they finish through poll, soon. As CANCELLED, but for those that
 * gp_call_is_said is true of. */
void gp_client_cancel_all(struct gp_client *client);

void gp_client_stats(const struct gp_client *client, struct gp_client_stats *stats);

/* The causes known for calls that came back from poll, most frequent ones or not; returns their number, at
 * most GP_CLIENT_CAUSES. Core tells none. */
size_t gp_client_causes(const struct gp_client *client, struct gp_client_cause causes[GP_CLIENT_CAUSES]);

/* CPU that the client has used so far, for differences: the polling thread's, and that of threads the
 * transport keeps out of sight. C core mixes the work of all clients of a process (csrc/client/usage.h):
 * there it is what all of them used since any of them was last asked, so the differences of one run's clients
 * add up to the run's CPU. Call it from the polling thread: in all clients of a run when the time that counts
 * begins, and at its end. */
uint64_t gp_client_cpu_ns(struct gp_client *client);

/* Whether those differences are the owner's own: false when a client of another
 * owner was at work since then. */
bool gp_client_cpu_known(const struct gp_client *client, uint64_t since_ns);

void gp_client_destroy(struct gp_client *client);

#endif
