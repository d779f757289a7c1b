/* What one call is asked to do beside answering: read from its metadata ("grpcperf-" names) over defaults
 * that were set for the whole server. Pure. */
#ifndef GP_SERVER_BEHAVIOUR_H
#define GP_SERVER_BEHAVIOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_error;

#define GP_BEHAVIOUR_PREFIX "grpcperf-"
#define GP_BEHAVIOUR_PREFIX_LENGTH (sizeof(GP_BEHAVIOUR_PREFIX) - 1)

struct gp_behaviour {
    bool asked;                /* anything below differs from a plain call */
    bool hold;                 /* park until released or cancelled */
    bool observe_cancel;       /* a cancelled call ends at once instead of when its time is over */
    uint8_t status;            /* answer this status code and no message; 0: answer as usual */
    uint64_t delay_ns;         /* wait without using CPU */
    uint64_t busy_ns;          /* use this much CPU */
    uint64_t alloc_bytes;      /* allocate and touch for the call's life */
    uint64_t message_delay_ns; /* StreamingCall: wait before each answer */
};

void gp_behaviour_init(struct gp_behaviour *behaviour);

/* Set one, by its name with or without the prefix. GP_ERROR_INVALID for a name nobody knows or a value out of
 * bounds; the message names both. */
int gp_behaviour_set(struct gp_behaviour *behaviour, const char *key, size_t key_length, const char *value,
                     size_t value_length, struct gp_error *err);

static inline bool gp_behaviour_is_key(const char *key, size_t length)
{
    return length > GP_BEHAVIOUR_PREFIX_LENGTH &&
           __builtin_memcmp(key, GP_BEHAVIOUR_PREFIX, GP_BEHAVIOUR_PREFIX_LENGTH) == 0;
}

#endif
