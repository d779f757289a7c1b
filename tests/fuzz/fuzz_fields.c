/* The decoder of header blocks against one that remembers nothing, over whatever blocks the fuzzer thinks of.
 *
 * Input: a byte that chooses the limit, then blocks, each a length and its bytes. After each block the one
 * before comes once more: it is known by then, unless the new one has changed what it means. */
#include <stddef.h>
#include <stdint.h>

#include "../c/plain_decoder.h"
#include "base/error.h"

struct block {
    const uint8_t *bytes;
    size_t size;
    uint64_t digest; /* of the fields it stood for when it came last */
};

static struct block next_block(const uint8_t **data, const uint8_t *end)
{
    size_t length = *(*data)++, left = (size_t)(end - *data);
    struct block block = {*data, length < left ? length : left, 0};

    *data += block.size;
    return block;
}

/* FNV-1a over the fields as nghttp2 gave them last. */
static uint64_t digest_fields(const struct plain_decoder *plain)
{
    uint64_t digest = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < plain->count; i++) {
        const struct plain_field *field = &plain->fields[i];
        for (size_t k = 0; k <= field->name_size; k++)
            digest = (digest ^ (uint8_t)field->name[k]) * UINT64_C(1099511628211);
        for (size_t k = 0; k <= field->value_size; k++)
            digest = (digest ^ (uint8_t)field->value[k]) * UINT64_C(1099511628211);
    }
    return digest;
}

/* What is recognised must stand for the very fields it stood for before, also where gp_fields does not show
 * it. */
static int check_block(struct gp_decoder *decoder, struct plain_decoder *plain, struct block *block)
{
    struct gp_fields fields, wanted_fields;
    uint64_t inflated = gp_decoder_inflated(decoder);
    uint8_t *copy = malloc(block->size + 1); /* of its own, for the sanitizer */

    memcpy(copy, block->bytes, block->size);
    enum gp_decoded wanted = plain_read(plain, copy, block->size, &wanted_fields);
    enum gp_decoded decoded = gp_decoder_read(decoder, copy, block->size, &fields);
    uint64_t digest = digest_fields(plain);
    free(copy);
    CHECK(plain_agrees(decoded, &fields, wanted, &wanted_fields));
    if (block->digest && gp_decoder_inflated(decoder) == inflated)
        CHECK(digest == block->digest);
    block->digest = digest;
    if (decoded == GP_DECODED && !fields.malformed)
        CHECK(strcmp(gp_decoder_message(decoder), plain->message) == 0);
    else
        strcpy(plain->message, gp_decoder_message(decoder)); /* of what is refused, either is right */
    return decoded != GP_DECODED_BROKEN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct plain_decoder plain;
    const uint8_t *end = data + size;
    struct block previous = {data, 0, 0};
    struct gp_decoder *decoder;
    int alive = 1;

    if (size == 0)
        return 0;
    uint32_t max_list_bytes = *data % 2 ? 16384 : 64u + *data;
    data++;
    plain_create(&plain, max_list_bytes);
    CHECK(gp_decoder_create(&decoder, max_list_bytes, NULL) == 0);
    while (alive && data < end) {
        struct block block = next_block(&data, end);
        alive = check_block(decoder, &plain, &block);
        if (block.size == previous.size && memcmp(block.bytes, previous.bytes, block.size) == 0)
            previous.digest = block.digest;
        alive = alive && check_block(decoder, &plain, &previous);
        previous = block;
    }
    gp_decoder_destroy(decoder);
    plain_destroy(&plain);
    return 0;
}
