/* Blocks known again by their bytes: each its own meaning, the oldest forgotten first. */
#include <string.h>

#include "check.h"
#include "wire/known.h"

static void add(struct gp_known *known, uint8_t number, size_t size)
{
    uint8_t block[600];
    uint64_t meaning[4] = {number, 0, 0, number};

    memset(block, number, sizeof block);
    gp_known_add(known, block, size, meaning, sizeof meaning / (number % 2 + 1));
}

static int meaning_of(const struct gp_known *known, uint8_t number, size_t size)
{
    uint8_t block[600];

    memset(block, number, sizeof block);
    const uint64_t *meaning = gp_known_find(known, block, size);
    return meaning ? (int)meaning[0] : -1;
}

int main(void)
{
    struct gp_known known = {0};

    CHECK(meaning_of(&known, 0, 0) == -1);
    for (uint8_t i = 1; i <= GP_KNOWN_BLOCKS; i++) {
        add(&known, i, i * 5u);
        CHECK(meaning_of(&known, i, i * 5u) == i && meaning_of(&known, i, i * 5u - 1) == -1);
        CHECK(meaning_of(&known, i + 100, i * 5u) == -1);
    }
    CHECK(meaning_of(&known, 1, 5) == 1);
    add(&known, 50, 512); /* in place of the oldest, which had less room */
    CHECK(meaning_of(&known, 1, 5) == -1 && meaning_of(&known, 50, 512) == 50 &&
          meaning_of(&known, 2, 10) == 2);
    add(&known, 51, 513); /* too long to be worth it */
    CHECK(meaning_of(&known, 51, 513) == -1 && meaning_of(&known, 2, 10) == 2);
    gp_known_forget(&known);
    CHECK(meaning_of(&known, 50, 512) == -1 && meaning_of(&known, 2, 10) == -1);
    add(&known, 60, 0);
    CHECK(meaning_of(&known, 60, 0) == 60 && meaning_of(&known, 50, 512) == -1);
    gp_known_fini(&known);
    return 0;
}
