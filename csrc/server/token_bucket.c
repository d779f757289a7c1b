/* A token bucket. */
#include "server/token_bucket.h"

#include "base/clock.h"

void gp_token_bucket_init(struct gp_token_bucket *bucket, double per_s, double burst, uint64_t now_ns)
{
    *bucket = (struct gp_token_bucket){.per_s = per_s, .burst = burst, .tokens = burst, .at_ns = now_ns};
}

bool gp_token_bucket_take(struct gp_token_bucket *bucket, uint64_t now_ns)
{
    if (now_ns > bucket->at_ns) { /* two threads may come with their readings in the wrong order */
        double more = (double)(now_ns - bucket->at_ns) / (double)GP_NS_PER_S * bucket->per_s;
        bucket->tokens = bucket->tokens + more < bucket->burst ? bucket->tokens + more : bucket->burst;
        bucket->at_ns = now_ns;
    }
    if (bucket->tokens < 1)
        return false;
    bucket->tokens--;
    return true;
}
