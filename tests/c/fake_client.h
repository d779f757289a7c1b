/* A client.h of the tests' own over a clock of its own: calls finish after programmed times, and time passes
 * only while somebody waits for them. So pacing, classification and drain can be checked to the nanosecond.
 *
 * Included by one test, which then needs neither the client library nor base's clock. */
#ifndef GP_TESTS_FAKE_CLIENT_H
#define GP_TESTS_FAKE_CLIENT_H

#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "client/client.h"

#define FAKE_SLOTS 64
#define FAKE_NEVER UINT64_MAX
#define FAKE_BEGIN (1000 * GP_NS_PER_S)

struct fake_call {
    bool flying;
    uint64_t sent_ns, done_ns;
    enum gp_class class;
    bool ahead;
};

struct gp_client {
    /* The programme: how long the next call takes and how it ends. NULL: `service_ns`, OK. */
    void (*serve)(struct gp_client *client, uint64_t id, struct fake_call *call);
    uint64_t service_ns;
    enum gp_class cancel_class; /* what cancelled calls come back as, after cancel_ns */
    uint64_t cancel_ns;
    bool cancel_ahead;                         /* they come back as ahead */
    void (*on_time)(struct gp_client *client); /* called whenever time has passed */
    bool endless;                              /* calls that take for ever end 1 ms after gp_client_end */

    struct fake_call calls[FAKE_SLOTS];
    uint32_t in_flight, max_in_flight;
    uint64_t sent, submits, polls, ends, cancels, cpu_ns;
    uint64_t window_start_ns, window_end_ns, sent_in_window; /* as the test expects the measured window */
};

static uint64_t fake_now_ns = FAKE_BEGIN;

uint64_t gp_clock_now_ns(void)
{
    return fake_now_ns;
}

struct timespec gp_clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / GP_NS_PER_S), .tv_nsec = (long)(ns % GP_NS_PER_S)};
}

uint64_t gp_clock_thread_cpu_ns(void)
{
    return 0;
}

uint64_t gp_clock_process_cpu_ns(void)
{
    return 0;
}

/* Of the server: a tenth of the time, so that a test can tell when it was read. */
int gp_clock_pid_cpu_ns(pid_t pid, uint64_t *cpu_ns)
{
    CHECK(pid == 4711);
    *cpu_ns = fake_now_ns / 10;
    return 0;
}

int gp_clock_tid_cpu_ns(pid_t tid, uint64_t *cpu_ns)
{
    return -1;
}

static void fake_reset(struct gp_client *client)
{
    *client = (struct gp_client){
        .service_ns = GP_NS_PER_MS, .cancel_class = GP_CLASS_CANCELLED, .window_end_ns = UINT64_MAX};
    fake_now_ns = FAKE_BEGIN;
}

void gp_client_submit(struct gp_client *client, const uint64_t *ids, size_t count)
{
    CHECK(count > 0);
    client->submits++;
    for (size_t i = 0; i < count; i++) {
        struct fake_call *call = &client->calls[ids[i]];

        CHECK(ids[i] < FAKE_SLOTS && !call->flying);
        *call = (struct fake_call){.flying = true, .sent_ns = fake_now_ns, .class = GP_CLASS_OK};
        call->done_ns = client->service_ns == FAKE_NEVER ? FAKE_NEVER : fake_now_ns + client->service_ns;
        if (client->serve)
            client->serve(client, ids[i], call);
        client->sent++;
        client->sent_in_window +=
            fake_now_ns >= client->window_start_ns && fake_now_ns < client->window_end_ns;
        if (++client->in_flight > client->max_in_flight)
            client->max_in_flight = client->in_flight;
    }
}

static uint64_t fake_next_done_ns(const struct gp_client *client)
{
    uint64_t next_ns = FAKE_NEVER;

    for (size_t id = 0; id < FAKE_SLOTS; id++)
        if (client->calls[id].flying && client->calls[id].done_ns < next_ns)
            next_ns = client->calls[id].done_ns;
    return next_ns;
}

size_t gp_client_poll(struct gp_client *client, struct gp_event *events, size_t capacity, uint64_t until_ns)
{
    uint64_t next_ns = fake_next_done_ns(client);
    size_t count = 0;

    CHECK(until_ns <= fake_now_ns + 20 * GP_NS_PER_MS); /* flags of other threads must be seen */
    client->polls++;
    if (next_ns > until_ns)
        next_ns = until_ns;
    if (next_ns > fake_now_ns)
        fake_now_ns = next_ns;
    client->cpu_ns += 7;
    if (client->on_time)
        client->on_time(client);
    for (uint64_t id = 0; id < FAKE_SLOTS && count < capacity; id++) {
        struct fake_call *call = &client->calls[id];

        if (!call->flying || call->done_ns > fake_now_ns)
            continue;
        call->flying = false;
        client->in_flight--;
        events[count++] = (struct gp_event){.id = id,
                                            .sent_ns = call->sent_ns,
                                            .done_ns = call->done_ns,
                                            .messages_received = 1,
                                            .class = call->class,
                                            .ahead = call->ahead};
    }
    return count;
}

void gp_client_end(struct gp_client *client)
{
    client->ends++;
    if (!client->endless)
        return;
    for (size_t id = 0; id < FAKE_SLOTS; id++)
        if (client->calls[id].flying && client->calls[id].done_ns == FAKE_NEVER)
            client->calls[id].done_ns = fake_now_ns + GP_NS_PER_MS;
}

void gp_client_cancel_all(struct gp_client *client)
{
    client->cancels++;
    for (size_t id = 0; id < FAKE_SLOTS; id++) {
        struct fake_call *call = &client->calls[id];

        if (!call->flying || client->cancel_ns == FAKE_NEVER)
            continue;
        call->done_ns = fake_now_ns + client->cancel_ns;
        call->class = client->cancel_class;
        call->ahead = client->cancel_ahead;
    }
}

void gp_client_stats(const struct gp_client *client, struct gp_client_stats *stats)
{
    *stats = (struct gp_client_stats){.connected = 1,
                                      .messages_sent = client->sent,
                                      .messages_received = client->sent - client->in_flight,
                                      .polls = client->polls,
                                      .idle_polls = client->polls / 2};
}

uint64_t gp_client_cpu_ns(struct gp_client *client)
{
    return client->cpu_ns;
}

bool gp_client_cpu_known(const struct gp_client *client, uint64_t since_ns)
{
    return true;
}

#endif
