/* Tests of base/random: the published sequences, a second implementation, and
 * coarse checks of what is drawn. */
#include "base/random.h"

#include <math.h>
#include <string.h>

#include "check.h"

/* The first outputs of xoshiro256** from the state {1, 2, 3, 4}, as its ports check them. */
static void matches_the_published_sequence(void)
{
    static const uint64_t expected[] = {
        UINT64_C(11520),
        UINT64_C(0),
        UINT64_C(1509978240),
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
        UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832),
        UINT64_C(10595114339597558777),
        UINT64_C(2904607092377533576),
    };
    struct gp_random random = {.state = {1, 2, 3, 4}};

    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK(gp_random_u64(&random) == expected[i]);
}

/* The first outputs of splitmix64 from seed 1234567. */
static void seeds_by_the_published_splitmix(void)
{
    static const uint64_t expected[4] = {
        UINT64_C(6457827717110365317),
        UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),
        UINT64_C(4593380528125082431),
    };
    struct gp_random random;

    gp_random_init(&random, 1234567);
    CHECK(memcmp(random.state, expected, sizeof expected) == 0);
}

/* Written from the papers alone, in another shape than the engine's. */
static uint64_t second_opinion(uint64_t s[4])
{
    uint64_t times5 = (s[1] << 2) + s[1];
    uint64_t rotated = times5 << 7 | times5 >> 57;
    uint64_t a = s[0], b = s[1], c = s[2], d = s[3];

    s[0] = a ^ d ^ b;
    s[1] = b ^ c ^ a;
    s[2] = c ^ a ^ (b << 17);
    uint64_t e = d ^ b;
    s[3] = e << 45 | e >> 19;
    return (rotated << 3) + rotated;
}

static void matches_a_second_implementation(void)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct gp_random random;
        uint64_t state[4];

        gp_random_init(&random, seed * UINT64_C(0x123456789abcdef));
        memcpy(state, random.state, sizeof state);
        for (int i = 0; i < 1000; i++)
            CHECK(gp_random_u64(&random) == second_opinion(state));
    }
}

static void a_seed_repeats_and_another_differs(void)
{
    struct gp_random a, b, c;

    gp_random_init(&a, 0);
    gp_random_init(&b, 0);
    gp_random_init(&c, 1);
    int same = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t x = gp_random_u64(&a);
        CHECK(x == gp_random_u64(&b));
        same += x == gp_random_u64(&c);
    }
    CHECK(same == 0);
}

static void unit_is_uniform(void)
{
    enum { DRAWS = 200000, BINS = 20 };
    struct gp_random random;
    int bins[BINS] = {0};
    double sum = 0;

    gp_random_init(&random, 42);
    for (int i = 0; i < DRAWS; i++) {
        double x = gp_random_unit(&random);
        CHECK(x >= 0 && x < 1);
        bins[(int)(x * BINS)]++;
        sum += x;
    }
    CHECK(fabs(sum / DRAWS - 0.5) < 0.005);
    double chi2 = 0, expected = (double)DRAWS / BINS;
    for (int i = 0; i < BINS; i++)
        chi2 += (bins[i] - expected) * (bins[i] - expected) / expected;
    CHECK(chi2 < 50); /* 19 degrees of freedom: 99.99 % lie below 50 */
}

/* 3 * 2^62 is the worst case for a biased "multiply and shift" or "modulo": a third of the results would be
 * twice as likely as the others. */
static void below_has_no_bias(void)
{
    enum { DRAWS = 90000 };
    const uint64_t n = UINT64_C(3) << 62;
    struct gp_random random;
    int thirds[3] = {0};

    gp_random_init(&random, 7);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t x = gp_random_below(&random, n);
        CHECK(x < n);
        thirds[x >> 62]++;
    }
    for (int i = 0; i < 3; i++)
        CHECK(abs(thirds[i] - DRAWS / 3) < 900); /* over 6 standard deviations */

    /* Multiply-and-shift favours residues rather than ranges: x % 3 shows it. */
    int residues[3] = {0};
    for (int i = 0; i < DRAWS; i++)
        residues[gp_random_below(&random, n) % 3]++;
    for (int i = 0; i < 3; i++)
        CHECK(abs(residues[i] - DRAWS / 3) < 900);
}

static void below_covers_small_ranges(void)
{
    struct gp_random random;
    int seen[6] = {0};

    gp_random_init(&random, 3);
    for (int i = 0; i < 60000; i++)
        seen[gp_random_below(&random, 6)]++;
    for (int i = 0; i < 6; i++)
        CHECK(abs(seen[i] - 10000) < 600);
    for (int i = 0; i < 100; i++)
        CHECK(gp_random_below(&random, 1) == 0);
    for (int i = 0; i < 100; i++)
        CHECK(gp_random_below(&random, UINT64_MAX) < UINT64_MAX);
}

static void exponential_has_its_moments_and_tail(void)
{
    enum { DRAWS = 200000 };
    struct gp_random random;
    double sum = 0, squares = 0;
    int beyond = 0;

    gp_random_init(&random, 11);
    for (int i = 0; i < DRAWS; i++) {
        double x = gp_random_exponential(&random);
        CHECK(x >= 0 && isfinite(x));
        sum += x;
        squares += x * x;
        beyond += x > 3;
    }
    double mean = sum / DRAWS;
    CHECK(fabs(mean - 1) < 0.015);
    CHECK(fabs(squares / DRAWS - mean * mean - 1) < 0.05);
    CHECK(fabs((double)beyond / DRAWS - exp(-3)) < 0.004);
}

int main(void)
{
    matches_the_published_sequence();
    seeds_by_the_published_splitmix();
    matches_a_second_implementation();
    a_seed_repeats_and_another_differs();
    unit_is_uniform();
    below_has_no_bias();
    below_covers_small_ranges();
    exponential_has_its_moments_and_tail();
    return 0;
}
