/* merge: adds up what load threads have recorded. */
#include "load/merge.h"

#include "base/message_times.h"
#include "client/causes.h"
#include "load/run.h"
#include "load/worker.h"

static void sum_marks(struct gp_run_result *result, const struct gp_generator_mark marks[2])
{
    result->client_cpu_ns += marks[1].cpu_ns - marks[0].cpu_ns;
    result->messages_sent += marks[1].messages_sent - marks[0].messages_sent;
    result->payload_sent += marks[1].payload_sent - marks[0].payload_sent;
    result->messages_received += marks[1].messages_received - marks[0].messages_received;
    result->polls += marks[1].polls - marks[0].polls;
    result->idle_polls += marks[1].idle_polls - marks[0].idle_polls;
    result->opened += marks[1].opened - marks[0].opened;
    result->tls_resumed += marks[1].tls_resumed - marks[0].tls_resumed;
}

static void sum_worker(struct gp_run_result *result, const struct gp_worker *worker)
{
    const struct gp_generator *generator = &worker->generator;

    result->connected += worker->stats.connected;
    result->reconnects += worker->stats.reconnects;
    result->alive += worker->stats.alive;
    result->ahead += generator->ahead;
    gp_client_peer_least(&result->peer, &worker->stats.peer);
    result->stopped |= generator->cut_by == GP_CEASE_STOP;
    result->client_cpu_known &= generator->entered && generator->cpu_known;
    if (generator->drained_ns > result->drain_ns)
        result->drain_ns = generator->drained_ns;
    if (generator->entered)
        sum_marks(result, generator->marks);
}

static void sum_times(struct gp_run_result *result, const struct gp_message_times *times)
{
    if (!times->marks)
        return; /* of no such kind */
    gp_histogram_add(&result->first_message, &times->first);
    gp_histogram_add(&result->message_gap, &times->gap);
    gp_histogram_add(&result->round_trip, &times->round_trip);
}

static void sum_causes(struct gp_run_result *result, const struct gp_worker *workers, uint32_t count)
{
    struct gp_causes all;

    gp_causes_init(&all);
    for (uint32_t i = 0; i < count; i++)
        for (size_t c = 0; c < workers[i].cause_count; c++)
            gp_causes_add(&all, workers[i].causes[c].class, workers[i].causes[c].text,
                          workers[i].causes[c].calls);
    result->cause_count = all.count;
    for (uint32_t c = 0; c < all.count; c++)
        result->causes[c] = all.known[c];
    gp_causes_fini(&all);
}

int gp_merge(struct gp_run_result *result, struct gp_worker *workers, uint32_t count,
             const struct gp_timeline *timeline, struct gp_error *err)
{
    struct gp_recorder *whole = &workers[0].recorder;

    result->client_cpu_known = true;
    gp_client_peer_init(&result->peer);
    gp_histogram_init(&result->first_message);
    gp_histogram_init(&result->message_gap);
    gp_histogram_init(&result->round_trip);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            gp_recorder_merge(whole, &workers[i].recorder);
        sum_worker(result, &workers[i]);
        sum_times(result, &workers[i].times);
    }
    sum_causes(result, workers, count);
    gp_recorder_move(whole, result);
    result->server_cpu_known = timeline->server_cpu_known[0] && timeline->server_cpu_known[1];
    if (result->server_cpu_known)
        result->server_cpu_ns = timeline->server_cpu_ns[1] - timeline->server_cpu_ns[0];
    if (whole->out_of_memory)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for the windows of a load run");
    return 0;
}
