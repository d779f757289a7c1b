/* A small seeded generator (xoshiro256**, Blackman and Vigna 2018, seeded by splitmix64), so that a run can
 * be repeated exactly. Not for secrets. */
#ifndef GP_BASE_RANDOM_H
#define GP_BASE_RANDOM_H

#include <stdint.h>

struct gp_random {
    uint64_t state[4];
};

void gp_random_init(struct gp_random *random, uint64_t seed);
uint64_t gp_random_u64(struct gp_random *random);
double gp_random_unit(struct gp_random *random);                /* uniform in [0, 1) */
uint64_t gp_random_below(struct gp_random *random, uint64_t n); /* uniform in [0, n), without bias; n > 0 */
double gp_random_exponential(struct gp_random *random);         /* mean 1 */

/* The number at place `index` of an endless sequence that belongs to the seed, without those before it:
 * splitmix64 (Steele, Lea and Flood 2014). */
static inline uint64_t gp_random_at(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
