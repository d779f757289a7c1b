/* The texts of models and limits: fields between colons. */
#include "server/options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define MIN_STACK_BYTES 16384 /* PTHREAD_STACK_MIN */
#define MAX_STACK_BYTES (1l << 30)
#define MAX_THREADS 1024
#define MAX_WORKERS 10000
#define DEFAULT_QUEUE 1000
#define MAX_RATE 1e9
#define DEFAULT_BURST 100
#define MAX_PRUNE_US (86400l * 1000000)
#define MAX_FIELDS 4

struct fields {
    char text[128];
    const char *each[MAX_FIELDS]; /* the first is the name */
    unsigned count;
};

static bool split(struct fields *fields, const char *text)
{
    if (strlen(text) >= sizeof(fields->text))
        return false;
    strcpy(fields->text, text);
    fields->count = 0;
    for (char *rest = fields->text, *field; (field = strsep(&rest, ":"));) {
        if (fields->count == MAX_FIELDS)
            return false;
        fields->each[fields->count++] = field;
    }
    return true;
}

static bool number(const char *text, long low, long high, unsigned *value)
{
    long parsed;
    if (!gp_arguments_number(text, low, high, &parsed))
        return false;
    *value = (unsigned)parsed;
    return true;
}

/* --- models --- */

static bool set_async(struct gp_options *options, const struct fields *fields)
{
    options->model = GP_MODEL_ASYNC;
    return fields->count == 1 ||
           (fields->count == 2 && number(fields->each[1], 1, MAX_THREADS, &options->threads));
}

static bool set_thread(struct gp_options *options, const struct fields *fields)
{
    long bytes = (long)options->stack_bytes;
    options->model = GP_MODEL_THREAD;
    if (fields->count > 2 || (fields->count == 2 && !gp_arguments_number(fields->each[1], MIN_STACK_BYTES,
                                                                         MAX_STACK_BYTES, &bytes)))
        return false;
    options->stack_bytes = (size_t)bytes;
    return true;
}

static bool set_stream_workers(struct gp_options *options, const struct fields *fields)
{
    options->model = GP_MODEL_STREAM_WORKERS;
    return fields->count == 2 && number(fields->each[1], 0, MAX_WORKERS, &options->workers);
}

static bool set_pool(struct gp_options *options, const struct fields *fields)
{
    options->model = GP_MODEL_POOL;
    options->queue = DEFAULT_QUEUE;
    return (fields->count == 2 || fields->count == 3) &&
           number(fields->each[1], 1, MAX_WORKERS, &options->workers) &&
           (fields->count == 2 || number(fields->each[2], 0, INT_MAX, &options->queue));
}

int gp_options_set_model(void *context, const char *text, struct gp_error *err)
{
    static const struct {
        const char *name, *wanted;
        bool (*set)(struct gp_options *options, const struct fields *fields);
    } models[] = {
        {"async", "async[:THREADS] with 1 to 1024 threads", set_async},
        {"thread", "thread[:STACK_BYTES] with 16384 bytes to 1 GiB", set_thread},
        {"stream-workers", "stream-workers:THREADS with 0 to 10000 threads", set_stream_workers},
        {"pool", "pool:THREADS[:QUEUE] with 1 to 10000 threads, and 0 to 2147483647 calls in the queue",
         set_pool},
    };
    struct fields fields;
    for (unsigned i = 0; i < sizeof(models) / sizeof(*models) && split(&fields, text); i++) {
        if (strcmp(fields.each[0], models[i].name) != 0)
            continue;
        return models[i].set(context, &fields) ? 0 : gp_arguments_bad(err, "--model", text, models[i].wanted);
    }
    return gp_arguments_bad(err, "--model", text,
                            "async[:THREADS], thread[:STACK_BYTES], stream-workers:THREADS or "
                            "pool:THREADS[:QUEUE]");
}

/* --- limits --- */

static bool set_semaphore(struct gp_limit_options *limit, const struct fields *fields)
{
    limit->kind = GP_LIMIT_SEMAPHORE;
    return fields->count == 2 && number(fields->each[1], 1, INT_MAX, &limit->most);
}

static bool rate_field(struct gp_limit_options *limit, const char *field)
{
    if (strncmp(field, "burst=", 6) == 0)
        return number(field + 6, 1, INT_MAX, &limit->burst);
    limit->degrade = strcmp(field, "degrade") == 0;
    return limit->degrade || strcmp(field, "reject") == 0;
}

static bool set_rate(struct gp_limit_options *limit, const struct fields *fields)
{
    char *end;
    limit->kind = GP_LIMIT_RATE;
    limit->burst = DEFAULT_BURST;
    if (fields->count < 2 || !strchr("0123456789.", fields->each[1][0]))
        return false;
    limit->per_s = strtod(fields->each[1], &end);
    bool good = end > fields->each[1] && !*end && limit->per_s > 0 && limit->per_s <= MAX_RATE;
    for (unsigned i = 2; i < fields->count && good; i++)
        good = rate_field(limit, fields->each[i]);
    return good;
}

static bool set_prune(struct gp_limit_options *limit, const struct fields *fields)
{
    char digits[24];
    long us;
    limit->kind = GP_LIMIT_PRUNE;
    size_t length = fields->count == 2 ? strlen(fields->each[1]) : 0;
    if (length < 3 || length - 2 >= sizeof(digits) || strcmp(fields->each[1] + length - 2, "us") != 0)
        return false;
    memcpy(digits, fields->each[1], length - 2);
    digits[length - 2] = 0;
    if (!gp_arguments_number(digits, 0, MAX_PRUNE_US, &us))
        return false;
    limit->below_ns = (uint64_t)us * GP_NS_PER_US;
    return true;
}

int gp_options_add_limit(void *context, const char *text, struct gp_error *err)
{
    static const struct {
        const char *name, *wanted;
        bool (*set)(struct gp_limit_options *limit, const struct fields *fields);
    } limits[] = {
        {"semaphore", "semaphore:CALLS, at least 1", set_semaphore},
        {"rate", "rate:PER_S[:burst=CALLS][:reject | :degrade], with more than 0 a second and a burst from 1",
         set_rate},
        {"prune", "prune:MICROSECONDSus, up to a day", set_prune},
    };
    struct gp_options *options = context;
    struct fields fields;
    if (options->limit_count == GP_OPTIONS_MAX_LIMITS)
        return gp_error_set(err, GP_ERROR_INVALID, "more than %d limits", GP_OPTIONS_MAX_LIMITS);
    for (unsigned i = 0; i < sizeof(limits) / sizeof(*limits) && split(&fields, text); i++) {
        if (strcmp(fields.each[0], limits[i].name) != 0)
            continue;
        if (!limits[i].set(&options->limits[options->limit_count], &fields))
            return gp_arguments_bad(err, "--limit", text, limits[i].wanted);
        options->limit_count++;
        return 0;
    }
    return gp_arguments_bad(err, "--limit", text, "semaphore:..., rate:... or prune:...");
}
