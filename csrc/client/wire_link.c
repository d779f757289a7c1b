/* wire_link: one connection from socket() to close(): what its descriptor says becomes what its HTTP/2 state
 * is told, and the other way round. */
#include "client/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* A peer that does not read gets so much put before it; then calls go elsewhere until it does. */
#define STUFFED_BYTES (4u << 20)

/* --- open -------------------------------------------------------------------------------------- */

/* The ports of one source address run short at 28,000 connections or less, for closed ones keep theirs for a
 * while. On loopback there are others. */
static enum gp_io connect_from(struct wire_client *client, int *fd)
{
    struct gp_endpoint from;
    enum gp_io io;

    for (;;) {
        bool given =
            client->source > 0 && gp_endpoint_loopback_source(&client->endpoint, client->source, &from) == 0;

        io = gp_socket_connect(&client->endpoint, given ? &from : NULL, fd);
        if (io != GP_IO_ERROR || errno != EADDRNOTAVAIL ||
            gp_endpoint_loopback_source(&client->endpoint, client->source + 1, &from) < 0)
            return io;
        client->source++;
    }
}

static int begin(struct wire_client *client, struct wire_link *link, struct gp_error *err)
{
    char buffer[128];
    int fd;
    enum gp_io io = connect_from(client, &fd);

    if (io == GP_IO_AGAIN && fd < 0)
        return gp_error_set(err, GP_ERROR_CONNECT, "the listener's queue is full");
    if (io == GP_IO_ERROR)
        return gp_error_set(err, GP_ERROR_CONNECT, "%s", gp_socket_cause(errno, buffer, sizeof buffer));
    gp_socket_keepalive(fd, &client->keepalive.tcp); /* of a fresh TCP socket it fails with nothing */
    if (gp_stream_init(&link->stream, fd, client->tls, err) < 0)
        return -1;
    /* One that is connected already is writable at once. */
    if (gp_poller_add(&client->poller, fd, link, true, err) < 0) {
        gp_stream_close(&link->stream);
        return -1;
    }
    return 0;
}

struct wire_link *wire_link_open(struct wire_client *client, uint32_t slot, struct gp_error *err)
{
    struct wire_link *link = calloc(1, sizeof *link);

    if (!link) {
        gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a connection");
        return NULL;
    }
    link->slot = slot;
    link->place = WIRE_NONE;
    link->began_ns = gp_clock_now_ns();
    if (begin(client, link, err) < 0) {
        free(link);
        return NULL;
    }
    return link;
}

void wire_link_mark_dirty(struct wire_client *client, struct wire_link *link)
{
    if (link->dirty || link->blocked || link->mute || link->state == WIRE_CLOSED)
        return;
    link->dirty = true;
    link->next_dirty = client->dirty;
    client->dirty = link;
}

/* --- set-up, step by step ---------------------------------------------------------------------- */

static void want(struct wire_client *client, struct wire_link *link, bool write)
{
    gp_poller_want(&client->poller, link->stream.fd, link, write);
}

/* Say hello in HTTP/2. */
static void greet(struct wire_client *client, struct wire_link *link)
{
    const struct gp_wire_opts opts = {
        .calls = client->calls,
        .index = link->index,
        .request = &client->request,
        .scheme = client->tls ? "https" : "http",
        .authority = client->authority,
        .stream_window = client->window,
        .connection_window = client->window,
        .max_message_bytes = client->max_message_bytes,
    };
    struct gp_error err;

    if (gp_wire_create(&link->wire, &opts, &err) < 0) {
        wire_link_lose(client, link, err.message);
        return;
    }
    link->state = WIRE_GREETING;
    want(client, link, false);
    wire_link_mark_dirty(client, link);
}

static void shake_hands(struct wire_client *client, struct wire_link *link)
{
    struct gp_error err;

    switch (gp_stream_handshake(&link->stream, &err)) {
    case GP_IO_OK:
        client->tls_resumed += gp_stream_resumed(&link->stream);
        greet(client, link);
        break;
    case GP_IO_AGAIN:
        want(client, link, gp_stream_blocked(&link->stream));
        break;
    case GP_IO_CLOSED:
    case GP_IO_ERROR:
        wire_link_lose(client, link, err.message);
        break;
    }
}

static void finish_connect(struct wire_client *client, struct wire_link *link)
{
    char buffer[128];

    if (gp_socket_finish(link->stream.fd) == GP_IO_ERROR) {
        wire_link_lose(client, link, gp_socket_cause(errno, buffer, sizeof buffer));
        return;
    }
    link->state = WIRE_HANDSHAKE; /* in plaintext there is none, and it is over at once */
    shake_hands(client, link);
}

/* --- reading ----------------------------------------------------------------------------------- */

static void count_setup(struct wire_setups *setups, uint64_t took_ns)
{
    if (setups->count++ == 0 || took_ns < setups->min_ns)
        setups->min_ns = took_ns;
    if (took_ns > setups->max_ns)
        setups->max_ns = took_ns;
    setups->sum_ns += took_ns;
}

static void become_ready(struct wire_client *client, struct wire_link *link)
{
    count_setup(&client->setups, client->now_ns - link->began_ns);
    link->state = WIRE_OPEN;
    wire_slots_opened(client, link);
    wire_keepalive_opened(client, link);
    if (client->ending)
        gp_wire_end(link->wire, client->now_ns);
}

/* Its last call has ended and there is nothing left to say. */
static void leave_if_done(struct wire_client *client, struct wire_link *link)
{
    if (link->state == WIRE_LEAVING && link->outstanding == 0 && !link->blocked &&
        !gp_wire_has_output(link->wire))
        wire_link_close(client, link);
}

/* What a connection has come to by what it received. */
static void follow(struct wire_client *client, struct wire_link *link)
{
    if (link->state == WIRE_GREETING && gp_wire_ready(link->wire))
        become_ready(client, link);
    if (link->state == WIRE_OPEN && !gp_wire_open(link->wire)) {
        link->state = WIRE_LEAVING;
        wire_slots_leaving(client, link);
    }
    if (gp_wire_has_output(link->wire))
        wire_link_mark_dirty(client, link);
    leave_if_done(client, link);
}

/* The peer has broken the protocol: it is told so, if that needs no waiting. */
static void part(struct wire_client *client, struct wire_link *link)
{
    size_t count = gp_wire_gather(link->wire, client->pieces, WIRE_PIECES, client->now_ns), written;

    if (!link->mute && !link->blocked)
        gp_stream_write(&link->stream, client->pieces, count, &written, NULL);
    wire_link_lose(client, link, gp_wire_cause(link->wire));
}

static void mark_more(struct wire_client *client, struct wire_link *link)
{
    if (link->more)
        return;
    link->more = true;
    link->next_more = client->more;
    client->more = link;
}

/* One buffer full at most: others have their turn, and the caller its time. `end` is the cause when there is
 * no more to come. */
static void read_until(struct wire_client *client, struct wire_link *link, const char *end)
{
    struct gp_error err;
    size_t got;
    enum gp_io io = gp_stream_read(&link->stream, client->buffer, WIRE_READ_BYTES, &got, &err);

    client->now_ns = gp_clock_now_ns();
    if (got > 0) {
        wire_keepalive_heard(link, client->now_ns);
        int status = gp_wire_receive(link->wire, client->buffer, got, client->now_ns);

        wire_link_account(client, link);
        if (status < 0) {
            part(client, link);
            return;
        }
    }
    if (io == GP_IO_CLOSED)
        wire_link_lose(client, link, end);
    else if (io == GP_IO_ERROR)
        wire_link_lose(client, link, err.message);
    else if (got > 0)
        follow(client, link);
    if (io == GP_IO_OK && link->state != WIRE_CLOSED)
        mark_more(client, link);
}

void wire_link_read(struct wire_client *client, struct wire_link *link)
{
    const char *end = "the peer closed the connection";

    if (link->state == WIRE_GREETING)
        end = client->tls ? "the peer agreed on TLS and closed the connection without a word (does it want a "
                            "certificate of the client?)"
                          : "the peer closed the connection without a word (does it speak TLS?)";
    read_until(client, link, end);
}

/* --- writing ----------------------------------------------------------------------------------- */

static void set_blocked(struct wire_client *client, struct wire_link *link, bool blocked)
{
    if (link->blocked == blocked)
        return;
    link->blocked = blocked;
    want(client, link, blocked);
    if (!blocked && link->stuffed)
        wire_slots_stuffed(client, link, false);
}

/* All that is there, as many pieces as go into one system call at a time. A peer that cannot be written to
 * may have said why: so the end comes by reading. */
void wire_link_flush(struct wire_client *client, struct wire_link *link)
{
    struct gp_error err;
    enum gp_io io;
    size_t count, written;

    do {
        count = gp_wire_gather(link->wire, client->pieces, WIRE_PIECES, client->now_ns);
        io = gp_stream_write(&link->stream, client->pieces, count, &written, &err);
        gp_wire_written(link->wire, written);
    } while (io == GP_IO_OK && written > 0 && gp_wire_has_output(link->wire));
    wire_link_account(client, link);
    set_blocked(client, link, io == GP_IO_AGAIN);
    if (io != GP_IO_ERROR) {
        leave_if_done(client, link);
        return;
    }
    link->mute = true;
    read_until(client, link, err.message);
    if (link->state != WIRE_CLOSED)
        wire_link_lose(client, link, err.message);
}

void wire_link_ready(struct wire_client *client, struct wire_link *link, const struct gp_ready *ready)
{
    switch ((enum wire_state)link->state) {
    case WIRE_CONNECTING:
        if (ready->writable)
            finish_connect(client, link);
        break;
    case WIRE_HANDSHAKE:
        shake_hands(client, link);
        break;
    case WIRE_GREETING:
    case WIRE_OPEN:
    case WIRE_LEAVING:
        if (ready->readable)
            wire_link_read(client, link);
        if (ready->writable && link->blocked && link->state != WIRE_CLOSED)
            wire_link_flush(client, link);
        break;
    case WIRE_CLOSED: /* by an earlier one of this batch */
        break;
    }
}

/* --- calls ------------------------------------------------------------------------------------- */

void wire_link_submit(struct wire_client *client, struct wire_link *link, uint32_t id)
{
    gp_wire_submit(link->wire, id, client->now_ns);
    link->outstanding++;
    gp_pool_load(&client->pool, link->place, link->outstanding);
    if (!link->blocked)
        wire_link_mark_dirty(client, link);
    else if (gp_wire_output_bytes(link->wire) > STUFFED_BYTES)
        wire_slots_stuffed(client, link, true);
    if (++link->taken == client->calls_per_connection) {
        link->state = WIRE_LEAVING;
        wire_slots_spent(client, link);
    }
}

void wire_link_account(struct wire_client *client, struct wire_link *link)
{
    uint32_t outstanding = gp_wire_in_flight(link->wire) + gp_wire_queued(link->wire);
    uint64_t from = client->produced;
    const struct gp_wire_cause *causes;
    size_t count = gp_wire_take_causes(link->wire, &causes);

    client->produced += link->outstanding - outstanding;
    link->outstanding = outstanding;
    if (link->place != WIRE_NONE)
        gp_pool_load(&client->pool, link->place, outstanding);
    for (size_t i = 0; i < count; i++)
        gp_causes_note(&client->causes, causes[i].class, causes[i].text, from, client->produced);
}

/* --- the end ----------------------------------------------------------------------------------- */

static void keep_counts(struct wire_client *client, const struct wire_link *link)
{
    struct gp_wire_stats stats;

    gp_wire_stats(link->wire, &stats);
    client->messages_sent += stats.messages_sent;
    client->payload_sent += stats.payload_sent;
    client->messages_received += stats.messages_received;
}

/* Others may still point to it: it is freed when nobody does. */
void wire_link_close(struct wire_client *client, struct wire_link *link)
{
    link->state = WIRE_CLOSED;
    gp_poller_remove(&client->poller, link->stream.fd);
    gp_stream_close(&link->stream);
    link->next_closed = client->closed;
    client->closed = link;
}

/* A peer that has said GOAWAY has said why. */
static bool has_parting_word(const struct wire_link *link)
{
    return link->wire && link->state == WIRE_LEAVING &&
           gp_wire_cause_class(link->wire) == GP_CLASS_TRANSPORT && gp_wire_cause(link->wire)[0] != '\0';
}

void wire_link_lose(struct wire_client *client, struct wire_link *link, const char *cause)
{
    char text[GP_CLIENT_CAUSE_BYTES];

    snprintf(text, sizeof text, "%s", has_parting_word(link) ? gp_wire_cause(link->wire) : cause);
    if (link->wire) {
        gp_wire_lost(link->wire, text, client->now_ns);
        wire_link_account(client, link);
    }
    wire_slots_lost(client, link, text);
    wire_link_close(client, link);
}

void wire_link_bury(struct wire_client *client)
{
    while (client->closed) {
        struct wire_link *link = client->closed;

        client->closed = link->next_closed;
        if (link->wire)
            keep_counts(client, link);
        gp_wire_destroy(link->wire);
        client->links[link->index] = NULL;
        client->free_links[client->free_count++] = link->index;
        free(link);
    }
}
