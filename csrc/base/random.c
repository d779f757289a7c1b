/* random: xoshiro256** 1.0 (https://prng.di.unimi.it/xoshiro256starstar.c) and what is drawn from it. */
#include "base/random.h"

#include <assert.h>
#include <math.h>

static uint64_t rotate_left(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

/* splitmix64 spreads any seed, 0 included, over the whole state; it never gives the all-zero state xoshiro
 * cannot leave. */
void gp_random_init(struct gp_random *random, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++)
        random->state[i] = gp_random_at(seed, i);
}

uint64_t gp_random_u64(struct gp_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double gp_random_unit(struct gp_random *random)
{
    return (double)(gp_random_u64(random) >> 11) * 0x1p-53;
}

/* Lemire, "Fast random integer generation in an interval" (2019), algorithm 5: the high half of a product,
 * with the few low halves rejected that would make some results likelier. */
uint64_t gp_random_below(struct gp_random *random, uint64_t n)
{
    assert(n > 0);
    unsigned __int128 product = (unsigned __int128)gp_random_u64(random) * n;

    if ((uint64_t)product < n) {
        uint64_t threshold = -n % n; /* 2^64 mod n */
        while ((uint64_t)product < threshold)
            product = (unsigned __int128)gp_random_u64(random) * n;
    }
    return (uint64_t)(product >> 64);
}

double gp_random_exponential(struct gp_random *random)
{
    /* 1 - unit is exact (a multiple of 2^-53 in (0, 1]) and never 0, and log is far cheaper than log1p. */
    return -log(1 - gp_random_unit(random));
}
