/* HPACK (RFC 7541) as bytes: the few representations that are written by hand, and the one question asked of
 * blocks that were not. The table is nobody's business here: nghttp2 decodes. */
#ifndef GP_WIRE_HPACK_H
#define GP_WIRE_HPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_bytes;

enum gp_hpack_pattern { /* the first byte's marking bits; the bits below them begin an integer */
                        GP_HPACK_INDEXED = 0x80,
                        GP_HPACK_INDEXING = 0x40, /* literal, and into the table with it */
                        GP_HPACK_TABLE_SIZE = 0x20,
                        GP_HPACK_NEVER_INDEXED = 0x10,
                        GP_HPACK_LITERAL = 0x00,
};

#define GP_HPACK_STATIC_ENTRIES 61u
#define GP_HPACK_ENTRY_BYTES 32u /* what an entry counts beyond its name and value (4.1) */
#define GP_HPACK_DEFAULT_TABLE 4096u

/* Append a representation's first bytes. -1 when out of memory, as below. */
int gp_hpack_put_integer(struct gp_bytes *out, enum gp_hpack_pattern pattern, uint32_t value);

/* Append a string, without Huffman coding. */
int gp_hpack_put_string(struct gp_bytes *out, const char *text, size_t size);

/* Whether a block is made only of indexed fields and of literals that do not enter the table: it leaves every
 * decoder as it was. Says nothing about a block that no decoder would take. */
bool gp_hpack_leaves_table(const uint8_t *block, size_t size);

#endif
