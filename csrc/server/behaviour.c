/* What one call is asked to do: names and bounds. */
#include "server/behaviour.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define MAX_WAIT_US UINT64_C(86400000000) /* a day */
#define MAX_ALLOC_BYTES (UINT64_C(1) << 40)
#define MAX_STATUS UINT64_C(16)

void gp_behaviour_init(struct gp_behaviour *behaviour)
{
    *behaviour = (struct gp_behaviour){.observe_cancel = true};
}

static int parse_number(const char *text, size_t length, uint64_t max, uint64_t *number)
{
    uint64_t sum = 0;
    if (length == 0 || length > 19)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        sum = sum * 10 + (uint64_t)(text[i] - '0');
    }
    if (sum > max)
        return -1;
    *number = sum;
    return 0;
}

static void apply(struct gp_behaviour *behaviour, unsigned which, uint64_t number)
{
    switch (which) {
    case 0:
        behaviour->hold = number;
        break;
    case 1:
        behaviour->delay_ns = number * GP_NS_PER_US;
        break;
    case 2:
        behaviour->busy_ns = number * GP_NS_PER_US;
        break;
    case 3:
        behaviour->alloc_bytes = number;
        break;
    case 4:
        behaviour->observe_cancel = number;
        break;
    case 5:
        behaviour->message_delay_ns = number * GP_NS_PER_US;
        break;
    default:
        behaviour->status = (uint8_t)number;
    }
    behaviour->asked = behaviour->hold || behaviour->delay_ns || behaviour->busy_ns ||
                       behaviour->alloc_bytes || behaviour->message_delay_ns || behaviour->status;
}

int gp_behaviour_set(struct gp_behaviour *behaviour, const char *key, size_t key_length, const char *value,
                     size_t value_length, struct gp_error *err)
{
    static const struct {
        const char *name;
        uint64_t max;
    } known[] = {
        {"hold", 2}, /* 2: streams answer a message first, for servers that read no more once parked */
        {"delay-us", MAX_WAIT_US},
        {"busy-us", MAX_WAIT_US},
        {"alloc-bytes", MAX_ALLOC_BYTES},
        {"observe-cancel", 1},
        {"message-delay-us", MAX_WAIT_US},
        {"status", MAX_STATUS},
    };
    if (gp_behaviour_is_key(key, key_length)) {
        key += GP_BEHAVIOUR_PREFIX_LENGTH;
        key_length -= GP_BEHAVIOUR_PREFIX_LENGTH;
    }
    for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++) {
        uint64_t number;
        if (strlen(known[i].name) != key_length || memcmp(known[i].name, key, key_length) != 0)
            continue;
        if (parse_number(value, value_length, known[i].max, &number) < 0)
            return gp_error_set(err, GP_ERROR_INVALID,
                                GP_BEHAVIOUR_PREFIX "%s: '%.*s' is not a whole number from 0 to %llu",
                                known[i].name, (int)(value_length < 40 ? value_length : 40), value,
                                (unsigned long long)known[i].max);
        apply(behaviour, i, number);
        return 0;
    }
    return gp_error_set(err, GP_ERROR_INVALID, "no behaviour is called " GP_BEHAVIOUR_PREFIX "%.*s",
                        (int)(key_length < 60 ? key_length : 60), key);
}
