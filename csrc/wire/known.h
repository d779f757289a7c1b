/* Header blocks that were read before, known again by their bytes, each with what it means. Only for blocks
 * that leave the decoder's table as it was (gp_hpack_leaves_table), and only until another block changes it:
 * then forget. */
#ifndef GP_WIRE_KNOWN_H
#define GP_WIRE_KNOWN_H

#include <stddef.h>
#include <stdint.h>

#define GP_KNOWN_BLOCKS 8u
#define GP_KNOWN_BYTES_MAX 512u /* longer ones are rare: reading them is cheap beside what they carry */

struct gp_known_block;

struct gp_known {        /* all zero at the beginning */
    uint8_t count, next; /* the slot to be used next, round and round */
    uint16_t sizes[GP_KNOWN_BLOCKS];
    struct gp_known_block *blocks[GP_KNOWN_BLOCKS]; /* keep their memory when they are forgotten */
};

/* What such a block means, valid until the next call of add; NULL when it is not known. */
const void *gp_known_find(const struct gp_known *known, const uint8_t *block, size_t size);

/* A copy of block and meaning, in place of the oldest. When memory is short the block is just not known. */
void gp_known_add(struct gp_known *known, const uint8_t *block, size_t size, const void *meaning,
                  size_t meaning_size);

void gp_known_forget(struct gp_known *known);
void gp_known_fini(struct gp_known *known);

#endif
