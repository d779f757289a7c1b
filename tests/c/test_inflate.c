/* inflate: each field of a block in its order, and what is no block or too large. What is made of the fields
 * is tested with those who read them (test_fields.c, test_routes.c). */
#include "wire/inflate.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "wire/hpack.h"

/* Literals that leave the table alone, then one that goes into it. */
static const uint8_t plain[] = "\x00\x01"
                               "a\x01"
                               "1\x00\x01"
                               "b\x02"
                               "22";
static const uint8_t added[] = "\x40\x01"
                               "c\x03"
                               "333";

static char seen[256];

static void note(void *context, const nghttp2_nv *field)
{
    size_t used = strlen(seen);

    CHECK(context == seen);
    snprintf(seen + used, sizeof seen - used, "%.*s=%.*s|", (int)field->namelen, (const char *)field->name,
             (int)field->valuelen, (const char *)field->value);
}

static enum gp_inflated inflate(nghttp2_hd_inflater *inflater, const uint8_t *block, size_t size,
                                uint32_t max_list_bytes)
{
    seen[0] = '\0';
    return gp_inflate(inflater, block, size, max_list_bytes, note, seen);
}

int main(void)
{
    const uint32_t exactly = 2 * GP_HPACK_ENTRY_BYTES + 5;
    nghttp2_hd_inflater *inflater;

    CHECK(nghttp2_hd_inflate_new(&inflater) == 0);
    CHECK(inflate(inflater, plain, sizeof plain - 1, 1000) == GP_INFLATED && strcmp(seen, "a=1|b=22|") == 0);
    CHECK(inflate(inflater, plain, sizeof plain - 1, exactly) == GP_INFLATED);
    CHECK(inflate(inflater, plain, sizeof plain - 1, exactly - 1) == GP_INFLATED_TOO_LARGE);
    CHECK(strcmp(seen, "a=1|") == 0);
    CHECK(inflate(inflater, plain, 0, 1000) == GP_INFLATED && seen[0] == '\0');

    /* Too large, and in the table all the same: 62 is its first entry. */
    CHECK(inflate(inflater, added, sizeof added - 1, 10) == GP_INFLATED_TOO_LARGE && seen[0] == '\0');
    CHECK(inflate(inflater, (const uint8_t *)"\xbe", 1, 1000) == GP_INFLATED && strcmp(seen, "c=333|") == 0);

    for (size_t size = 1; size < sizeof plain - 1; size++) { /* cut short, but for where a field ends */
        nghttp2_hd_inflater *fresh;

        CHECK(nghttp2_hd_inflate_new(&fresh) == 0);
        CHECK(inflate(fresh, plain, size, 1000) == (size == 5 ? GP_INFLATED : GP_INFLATED_BROKEN));
        nghttp2_hd_inflate_del(fresh);
    }
    CHECK(inflate(inflater, (const uint8_t *)"\xff\xff", 2, 1000) == GP_INFLATED_BROKEN); /* no such entry */
    nghttp2_hd_inflate_del(inflater);
    return 0;
}
