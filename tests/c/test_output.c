/* output: own bytes and shared ones come out in the order they went in, however they are written. */
#include "wire/output.h"

#include <string.h>

#include "base/random.h"
#include "check.h"

static uint8_t shared[5000];

static void put_own(struct gp_output *output, struct gp_bytes *wanted, size_t size, uint8_t first)
{
    uint8_t *at = gp_output_reserve(output, size);

    CHECK(at);
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(first + i);
    CHECK(gp_bytes_append(wanted, at, size) == 0);
    gp_output_commit(output, size);
}

static void put_shared(struct gp_output *output, struct gp_bytes *wanted, size_t at, size_t size)
{
    CHECK(gp_output_share(output, shared + at, size) == 0 && gp_bytes_append(wanted, shared + at, size) == 0);
}

/* Write about `most` bytes of what is gathered in `capacity` pieces. */
static void write_some(struct gp_output *output, struct gp_bytes *wanted, size_t capacity, size_t most)
{
    struct iovec pieces[8];
    size_t count = gp_output_gather(output, pieces, capacity), written = 0;

    CHECK(count <= capacity && (count > 0) == (output->queued > 0));
    for (size_t i = 0; i < count && written < most; i++) {
        size_t part = pieces[i].iov_len < most - written ? pieces[i].iov_len : most - written;
        CHECK(memcmp(pieces[i].iov_base, gp_bytes_front(wanted), part) == 0);
        gp_bytes_take(wanted, part);
        written += part;
    }
    gp_output_written(output, written);
    CHECK(output->queued == gp_bytes_length(wanted));
}

static void everything_comes_out_in_order(uint64_t seed)
{
    struct gp_output output = {0};
    struct gp_bytes wanted = {0};
    struct gp_random random;

    gp_random_init(&random, seed);
    for (int step = 0; step < 20000; step++) {
        uint64_t dice = gp_random_u64(&random);
        size_t size = 1 + (dice >> 8) % 90;
        if (dice % 4 == 0)
            put_shared(&output, &wanted, (dice >> 20) % 4900, size);
        else if (dice % 4 == 1)
            put_own(&output, &wanted, size, (uint8_t)step);
        else
            write_some(&output, &wanted, 1 + (dice >> 30) % 8, (dice >> 40) % 200);
    }
    while (output.queued > 0)
        write_some(&output, &wanted, 8, 1000);
    gp_output_fini(&output);
    gp_bytes_fini(&wanted);
}

/* Ten thousand connections that each had a burst once must not keep its memory. */
static void memory_of_a_burst_is_given_back(void)
{
    struct gp_output output = {0};
    struct gp_bytes wanted = {0};

    put_own(&output, &wanted, 500000, 0);
    write_some(&output, &wanted, 8, SIZE_MAX);
    for (int i = 0; i < 100; i++) {
        put_own(&output, &wanted, 100, 0);
        write_some(&output, &wanted, 8, SIZE_MAX);
    }
    CHECK(output.own.capacity <= 1024);
    gp_output_fini(&output);
    gp_bytes_fini(&wanted);
}

int main(void)
{
    for (size_t i = 0; i < sizeof shared; i++)
        shared[i] = (uint8_t)(i * 31 + i / 256);
    for (uint64_t seed = 0; seed < 5; seed++)
        everything_comes_out_in_order(seed);
    memory_of_a_burst_is_given_back();
    return 0;
}
