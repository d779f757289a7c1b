/* The header block of the requests of one connection. The first one puts its fields into the peer's dynamic
 * table; from the second on the block is the same few bytes for ever (RFC 7541). */
#ifndef GP_WIRE_BLOCK_H
#define GP_WIRE_BLOCK_H

#include <stdint.h>
#include <stddef.h>

struct gp_error;
struct gp_request;
struct gp_block;

struct gp_block_opts {
    const struct gp_request *request; /* method, metadata, deadline (as grpc-timeout) */
    const char *scheme;               /* "http" or "https" */
    const char *authority;
    const char *encoding; /* grpc-encoding, or NULL for none */
};

int gp_block_create(struct gp_block **block, const struct gp_block_opts *opts, struct gp_error *err);

/* The peer's SETTINGS_HEADER_TABLE_SIZE: from then on blocks are encoded anew
 * until they come to rest again. */
void gp_block_table_size(struct gp_block *block, uint32_t bytes);

/* The next request's block, valid until the next call. Each call is one request: in order, none left out.
 * Cheap once the block has come to rest. NULL when out of memory. */
const uint8_t *gp_block_next(struct gp_block *block, size_t *size);

/* Whether every block from now on is the one that gp_block_next gave last. */
int gp_block_at_rest(const struct gp_block *block);

uint32_t gp_block_list_bytes(const struct gp_block *block); /* uncompressed, as MAX_HEADER_LIST_SIZE counts */

void gp_block_destroy(struct gp_block *block);

#endif
