/* Tests of client/causes: which calls a cause is counted for. */
#include "client/causes.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

static struct gp_causes causes;

static uint64_t count_of(const char *text)
{
    for (uint32_t i = 0; i < causes.count; i++)
        if (strcmp(causes.known[i].text, text) == 0)
            return causes.known[i].calls;
    return 0;
}

static void only_calls_of_its_class_and_span_count(void)
{
    static const enum gp_class ended[] = {
        GP_CLASS_TRANSPORT, GP_CLASS_OK,        GP_CLASS_TRANSPORT, GP_CLASS_TRANSPORT, GP_CLASS_UNKNOWN,
        GP_CLASS_TRANSPORT, GP_CLASS_TRANSPORT, GP_CLASS_UNKNOWN,   GP_CLASS_OK,        GP_CLASS_TRANSPORT,
    };

    gp_causes_init(&causes);
    gp_causes_note(&causes, GP_CLASS_TRANSPORT, "reset", 1, 4);
    gp_causes_note(&causes, GP_CLASS_UNKNOWN, "no status", 4, 4); /* nothing finished with it */
    gp_causes_note(&causes, GP_CLASS_TRANSPORT, "closed", 5, 6);
    gp_causes_note(&causes, GP_CLASS_UNKNOWN, "no status", 6, 9);
    CHECK(gp_causes_pending(&causes));
    for (size_t i = 0; i < sizeof ended / sizeof *ended; i++)
        gp_causes_pass(&causes, ended[i], i);
    CHECK(count_of("reset") == 2 && count_of("closed") == 1 && count_of("no status") == 1);
    CHECK(!gp_causes_pending(&causes));
    gp_causes_fini(&causes);
}

/* One read may end calls of several classes. */
static void the_same_calls_have_a_cause_for_each_class(void)
{
    gp_causes_init(&causes);
    for (uint64_t i = 0; i < 100; i += 10) {
        gp_causes_note(&causes, GP_CLASS_UNKNOWN, "no status", i, i + 10);
        gp_causes_note(&causes, GP_CLASS_INTERNAL, i < 50 ? "bad" : "worse", i, i + 10);
    }
    for (uint64_t i = 0; i < 100; i++)
        gp_causes_pass(&causes, i % 3 ? GP_CLASS_INTERNAL : i % 2 ? GP_CLASS_UNKNOWN : GP_CLASS_OK, i);
    CHECK(count_of("bad") == 33 && count_of("worse") == 33 && count_of("no status") == 17);
    CHECK(causes.last <= 20 && !gp_causes_pending(&causes) == (causes.first == causes.last));
    gp_causes_fini(&causes);
}

static void a_cause_in_a_row_is_one_span(void)
{
    gp_causes_init(&causes);
    for (uint64_t i = 0; i < 1000; i++)
        gp_causes_note(&causes, GP_CLASS_INTERNAL, "bad", i, i + 1);
    CHECK(causes.last == 1 && causes.capacity < 100);
    for (uint64_t i = 0; i < 1000; i++)
        gp_causes_pass(&causes, GP_CLASS_INTERNAL, i);
    CHECK(count_of("bad") == 1000);
    gp_causes_fini(&causes);
}

/* What finished between two spans of one cause has another one, or none. */
static void a_gap_between_spans_stays_one(void)
{
    gp_causes_init(&causes);
    gp_causes_note(&causes, GP_CLASS_TRANSPORT, "reset", 0, 2);
    gp_causes_note(&causes, GP_CLASS_TRANSPORT, "reset", 5, 7);
    for (uint64_t i = 0; i < 10; i++)
        gp_causes_pass(&causes, GP_CLASS_TRANSPORT, i);
    CHECK(count_of("reset") == 4);
    gp_causes_fini(&causes);
}

/* Spans come and go for ever in bounded memory. */
static void memory_follows_what_is_pending(void)
{
    gp_causes_init(&causes);
    for (uint64_t i = 0; i < 100000; i++) {
        gp_causes_note(&causes, GP_CLASS_UNKNOWN, i % 2 ? "odd" : "even", i, i + 1);
        if (i >= 10)
            gp_causes_pass(&causes, GP_CLASS_UNKNOWN, i - 10);
    }
    CHECK(causes.capacity <= 64);
    CHECK(count_of("odd") + count_of("even") == 99990);
    gp_causes_fini(&causes);
}

static void the_table_is_bounded(void)
{
    char text[GP_CLIENT_CAUSE_BYTES * 2];
    uint64_t sum = 0;

    gp_causes_init(&causes);
    for (unsigned i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "cause %u", i);
        gp_causes_add(&causes, GP_CLASS_TRANSPORT, text, 1);
        gp_causes_note(&causes, GP_CLASS_UNKNOWN, text, i, i + 1);
        gp_causes_pass(&causes, GP_CLASS_UNKNOWN, i);
    }
    CHECK(causes.count == GP_CLIENT_CAUSES);
    for (uint32_t i = 0; i < causes.count; i++)
        sum += causes.known[i].calls;
    CHECK(sum == 200 && count_of("other causes") == 200 - (GP_CLIENT_CAUSES - 1));
    gp_causes_fini(&causes);

    gp_causes_init(&causes);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    gp_causes_add(&causes, GP_CLASS_TRANSPORT, text, 1);
    gp_causes_add(&causes, GP_CLASS_TRANSPORT, text, 2); /* the same, as far as it is kept */
    gp_causes_add(&causes, GP_CLASS_TRANSPORT, text, 0);
    CHECK(causes.count == 1 && causes.known[0].calls == 3);
    gp_causes_fini(&causes);
}

int main(void)
{
    only_calls_of_its_class_and_span_count();
    the_same_calls_have_a_cause_for_each_class();
    a_cause_in_a_row_is_one_span();
    a_gap_between_spans_stays_one();
    memory_follows_what_is_pending();
    the_table_is_bounded();
    return 0;
}
