/* The record that the codecs are compared on: an order, nested, with texts, numbers and repeated parts, about
 * 1 KB when it is encoded. Its shape stands once more in record.proto, in record.fbs, and in msgpack.c as a
 * table of names. */
#ifndef GP_CODEC_RECORD_H
#define GP_CODEC_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that a record holds; a decoder refuses what has more. */
#define GP_RECORD_ITEMS 16
#define GP_RECORD_TAGS 8
#define GP_RECORD_SAMPLES 32

/* Somebody else's bytes. In a record to be encoded, a 0 follows each but the signature. */
struct gp_text {
    const char *data;
    size_t size;
};

struct gp_address {
    struct gp_text street, city, postcode, country;
    double latitude, longitude;
};

struct gp_item {
    struct gp_text sku, name;
    int32_t quantity;
    double price;
};

struct gp_record {
    uint64_t id;
    int64_t created_us;
    struct gp_text customer, email;
    bool paid;
    int32_t state;
    double total;
    struct gp_address address;
    size_t item_count, tag_count, sample_count;
    struct gp_item items[GP_RECORD_ITEMS];
    struct gp_text tags[GP_RECORD_TAGS];
    double samples[GP_RECORD_SAMPLES];
    struct gp_text signature; /* any bytes */
};

void gp_record_example(struct gp_record *record); /* the one that is measured; its texts are static */
bool gp_record_equal(const struct gp_record *a, const struct gp_record *b);

#endif
