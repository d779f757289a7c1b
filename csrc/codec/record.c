/* record: the one example, and whether two records say the same. */
#include "codec/record.h"

#include <string.h>

#define TEXT(literal) ((struct gp_text){literal, sizeof(literal) - 1})

void gp_record_example(struct gp_record *record)
{
    *record = (struct gp_record){
        .id = UINT64_C(9007199254740993), /* no double has this value */
        .created_us = INT64_C(1764492800123456),
        .customer = TEXT("Małgorzata Wiśniewska-Brown"),
        .email = TEXT("malgorzata.wisniewska@example.org"),
        .paid = true,
        .state = -3,
        .total = 1283.07,
        .address = {.street = TEXT("ul. Piotrkowska 104a/17"),
                    .city = TEXT("Łódź"),
                    .postcode = TEXT("90-926"),
                    .country = TEXT("PL"),
                    .latitude = 51.759248,
                    .longitude = -19.455983},
        .item_count = 8,
        .items = {{TEXT("KB-0087-DE"), TEXT("Keyboard, mechanical, brown switches"), 1, 129.90},
                  {TEXT("MS-0012"), TEXT("Mouse, wireless"), 2, 39.50},
                  {TEXT("MON-2740-4K"), TEXT("Monitor 27 inches, 3840 x 2160, 60 Hz"), 2, 389.00},
                  {TEXT("CBL-DP-200"), TEXT("Cable, DisplayPort, 2 m"), 2, 14.95},
                  {TEXT("DOCK-TB4"), TEXT("Docking station, Thunderbolt 4"), 1, 219.99},
                  {TEXT("CAM-1080"), TEXT("Camera, 1080p, with cover"), 1, 54.20},
                  {TEXT("PAD-XL"), TEXT("Desk pad, felt, 90 x 40 cm"), 1, 24.00},
                  {TEXT("HUB-USB-7"), TEXT("Hub, 7 ports, powered"), 200000, 0.07}},
        .tag_count = 4,
        .tags = {TEXT("priority"), TEXT("gift-wrapped"), TEXT("eu-central"), TEXT("2026-Q4")},
        .sample_count = 24,
        .signature = {"\x00\x9f\x1c\xe2\x47\xb8\x03\xd5\x6a\xf1\x88\x2e\x90\x54\xc7\x3b"
                      "\xa9\x16\xde\x72\x0d\xfb\x65\x31\x8c\xee\x49\x07\xb2\x5f\xd8\x00",
                      32},
    };
    for (size_t i = 0; i < record->sample_count; i++)
        record->samples[i] = 20.0 + (double)(i * 7 % 11) / 8 + (double)i / 1024;
}

static bool equal_texts(const struct gp_text *a, const struct gp_text *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

static bool equal_addresses(const struct gp_address *a, const struct gp_address *b)
{
    return equal_texts(&a->street, &b->street) && equal_texts(&a->city, &b->city) &&
           equal_texts(&a->postcode, &b->postcode) && equal_texts(&a->country, &b->country) &&
           a->latitude == b->latitude && a->longitude == b->longitude;
}

static bool equal_items(const struct gp_item *a, const struct gp_item *b)
{
    return equal_texts(&a->sku, &b->sku) && equal_texts(&a->name, &b->name) && a->quantity == b->quantity &&
           a->price == b->price;
}

static bool equal_parts(const struct gp_record *a, const struct gp_record *b)
{
    for (size_t i = 0; i < a->item_count; i++)
        if (!equal_items(&a->items[i], &b->items[i]))
            return false;
    for (size_t i = 0; i < a->tag_count; i++)
        if (!equal_texts(&a->tags[i], &b->tags[i]))
            return false;
    for (size_t i = 0; i < a->sample_count; i++)
        if (a->samples[i] != b->samples[i])
            return false;
    return true;
}

bool gp_record_equal(const struct gp_record *a, const struct gp_record *b)
{
    return a->id == b->id && a->created_us == b->created_us && equal_texts(&a->customer, &b->customer) &&
           equal_texts(&a->email, &b->email) && a->paid == b->paid && a->state == b->state &&
           a->total == b->total && equal_addresses(&a->address, &b->address) &&
           a->item_count == b->item_count && a->tag_count == b->tag_count &&
           a->sample_count == b->sample_count && equal_parts(a, b) &&
           equal_texts(&a->signature, &b->signature);
}
