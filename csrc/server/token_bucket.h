/* A token bucket: so many calls a second in the long run, and up to `burst` at once. Pure; whoever shares one
 * locks it. */
#ifndef GP_SERVER_TOKEN_BUCKET_H
#define GP_SERVER_TOKEN_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct gp_token_bucket {
    double per_s, burst;
    double tokens; /* full at the beginning */
    uint64_t at_ns;
};

void gp_token_bucket_init(struct gp_token_bucket *bucket, double per_s, double burst, uint64_t now_ns);

/* Take one token; false: there is none. */
bool gp_token_bucket_take(struct gp_token_bucket *bucket, uint64_t now_ns);

#endif
