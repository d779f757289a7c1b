/* block: the fields of a request, and their two encodings. The first block puts into the peer's table what
 * fits there, nothing is ever evicted, and every later block is a list of indices.
 *
 * Written by hand, because nghttp2's deflater puts no :path and no authorization into the table, which would
 * leave every block tens of bytes long. */
#include "wire/block.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/call.h"
#include "base/error.h"
#include "wire/hpack.h"
#include "wire/status.h"

#define FIXED_FIELDS 10u /* at most: all but the metadata */
#define USER_AGENT "grpcperf/" GP_VERSION

enum static_entry { /* RFC 7541, Appendix A */
                    STATIC_NONE = 0,
                    STATIC_AUTHORITY = 1,
                    STATIC_POST = 3,
                    STATIC_PATH = 4,
                    STATIC_HTTP = 6,
                    STATIC_HTTPS = 7,
                    STATIC_CONTENT_TYPE = 31,
                    STATIC_USER_AGENT = 58,
};

struct field {
    char *name, *value;
    enum static_entry entry;
    bool whole; /* the static entry has the value, too */
    bool indexed;
};

enum state {
    OPENING,  /* the next block fills the table */
    SETTLING, /* the next block is the first of those that stay */
    AT_REST,
};

struct gp_block {
    struct field *fields;
    size_t count;
    enum state state;
    uint32_t table_size;
    bool resized; /* table_size has changed: each opening then says so */
    struct gp_bytes bytes;
};

static int no_memory(struct gp_error *err)
{
    return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a header block");
}

static int add(struct gp_block *block, const char *name, const char *value, enum static_entry entry)
{
    struct field *field = &block->fields[block->count++];

    *field = (struct field){.name = strdup(name), .value = strdup(value), .entry = entry};
    return field->name && field->value ? 0 : -1;
}

static int add_whole(struct gp_block *block, const char *name, const char *value, enum static_entry entry)
{
    if (add(block, name, value, entry) != 0)
        return -1;
    block->fields[block->count - 1].whole = true;
    return 0;
}

/* In the order of gRPC over HTTP/2: pseudo-fields, timeout, the rest of the call's definition. */
static int add_definition(struct gp_block *block, const struct gp_block_opts *opts)
{
    uint64_t deadline_ns = opts->request->deadline_ns;
    char timeout[11] = "";

    if (deadline_ns)
        timeout[gp_status_timeout_encode(deadline_ns, timeout)] = '\0';
    if (add_whole(block, ":method", "POST", STATIC_POST) != 0 ||
        add_whole(block, ":scheme", opts->scheme,
                  strcmp(opts->scheme, "https") == 0 ? STATIC_HTTPS : STATIC_HTTP) != 0 ||
        add(block, ":path", opts->request->method, STATIC_PATH) != 0 ||
        add(block, ":authority", opts->authority, STATIC_AUTHORITY) != 0 ||
        (deadline_ns && add(block, "grpc-timeout", timeout, STATIC_NONE) != 0) ||
        add(block, "te", "trailers", STATIC_NONE) != 0 ||
        add(block, "content-type", "application/grpc", STATIC_CONTENT_TYPE) != 0 ||
        (opts->encoding && add(block, "grpc-encoding", opts->encoding, STATIC_NONE) != 0) ||
        add(block, "grpc-accept-encoding", "identity,gzip", STATIC_NONE) != 0 ||
        add(block, "user-agent", USER_AGENT, STATIC_USER_AGENT) != 0)
        return -1;
    return 0;
}

/* The names that the block itself writes, and those that RFC 9113, 8.2.2 forbids. */
static bool name_is_taken(const char *name)
{
    static const char *const taken[] = {
        "te",         "content-type",     "user-agent", "connection",        "host",
        "keep-alive", "proxy-connection", "upgrade",    "transfer-encoding",
    };

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (strcmp(name, taken[i]) == 0)
            return true;
    return strncmp(name, "grpc-", 5) == 0;
}

static int check_metadata(const struct gp_metadata *metadata, struct gp_error *err)
{
    const char *name = metadata->key, *value = metadata->value;
    bool binary = gp_metadata_is_binary(name);

    if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.")])
        return gp_error_set(err, GP_ERROR_INVALID,
                            "metadata key \"%s\" must be of a-z, 0-9, '-', '_' and '.'", name);
    if (name_is_taken(name))
        return gp_error_set(err, GP_ERROR_INVALID, "metadata key \"%s\" is reserved by gRPC or HTTP/2", name);
    size_t size = gp_metadata_value_bytes(metadata);
    bool good = binary || size == 0 || (value[0] != ' ' && value[size - 1] != ' ');
    for (size_t i = 0; !binary && i < size; i++)
        good = good && value[i] >= ' ' && value[i] <= '~';
    return good ? 0
                : gp_error_set(err, GP_ERROR_INVALID,
                               "metadata %s: its value must be printable ASCII without spaces at its ends",
                               name);
}

/* RFC 4648, 4, without padding: what gRPC asks senders for. */
static char *base64(const char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t written = 0;
    char *out = malloc(size / 3 * 4 + 5);
    uint32_t bits = 0;
    unsigned held = 0;

    for (size_t i = 0; out && i < size; i++) {
        bits = bits << 8 | (uint8_t)bytes[i];
        for (held += 8; held >= 6; held -= 6)
            out[written++] = digits[bits >> (held - 6) & 63];
    }
    if (out && held > 0)
        out[written++] = digits[bits << (6 - held) & 63];
    if (out)
        out[written] = '\0';
    return out;
}

static int add_metadata(struct gp_block *block, const struct gp_metadata *metadata, struct gp_error *err)
{
    bool binary = gp_metadata_is_binary(metadata->key);

    if (check_metadata(metadata, err) != 0)
        return -1;
    char *encoded = binary ? base64(metadata->value, metadata->value_bytes) : NULL;
    const char *value = binary ? encoded : metadata->value;
    int result = value ? add(block, metadata->key, value, STATIC_NONE) : -1;
    free(encoded);
    return result == 0 ? 0 : no_memory(err);
}

int gp_block_create(struct gp_block **block, const struct gp_block_opts *opts, struct gp_error *err)
{
    const struct gp_request *request = opts->request;
    struct gp_block *made = calloc(1, sizeof *made);

    *block = NULL;
    if (!made)
        return no_memory(err);
    made->table_size = GP_HPACK_DEFAULT_TABLE;
    gp_bytes_init(&made->bytes);
    made->fields = calloc(FIXED_FIELDS + request->metadata_count, sizeof *made->fields);
    int result = made->fields && add_definition(made, opts) == 0 ? 0 : no_memory(err);
    for (size_t i = 0; result == 0 && i < request->metadata_count; i++)
        result = add_metadata(made, &request->metadata[i], err);
    if (result == 0)
        *block = made;
    else
        gp_block_destroy(made);
    return result;
}

/* More than the default is never used, so a larger limit needs no word to the peer. */
void gp_block_table_size(struct gp_block *block, uint32_t bytes)
{
    uint32_t size = bytes < GP_HPACK_DEFAULT_TABLE ? bytes : GP_HPACK_DEFAULT_TABLE;

    if (size == block->table_size)
        return;
    block->table_size = size;
    block->resized = true;
    block->state = OPENING;
}

static uint32_t entry_bytes(const struct field *field)
{
    return (uint32_t)(strlen(field->name) + strlen(field->value)) + GP_HPACK_ENTRY_BYTES;
}

/* Down to nothing and up again: the smallest size since the last block has to be said (RFC 7541, 4.2), none
 * is smaller than 0, and the table is then known to be empty. */
static int write_resize(struct gp_block *block)
{
    if (gp_hpack_put_integer(&block->bytes, GP_HPACK_TABLE_SIZE, 0) != 0)
        return -1;
    return block->table_size ? gp_hpack_put_integer(&block->bytes, GP_HPACK_TABLE_SIZE, block->table_size)
                             : 0;
}

static int write_literal(struct gp_bytes *bytes, const struct field *field)
{
    enum gp_hpack_pattern pattern = field->indexed ? GP_HPACK_INDEXING : GP_HPACK_LITERAL;

    if (gp_hpack_put_integer(bytes, pattern, field->entry) != 0)
        return -1;
    if (field->entry == STATIC_NONE && gp_hpack_put_string(bytes, field->name, strlen(field->name)) != 0)
        return -1;
    return gp_hpack_put_string(bytes, field->value, strlen(field->value));
}

static int write_opening(struct gp_block *block)
{
    uint32_t room = block->table_size;
    int result = block->resized ? write_resize(block) : 0;

    for (size_t i = 0; result == 0 && i < block->count; i++) {
        struct field *field = &block->fields[i];
        field->indexed = !field->whole && entry_bytes(field) <= room;
        room -= field->indexed ? entry_bytes(field) : 0;
        result = field->whole ? gp_hpack_put_integer(&block->bytes, GP_HPACK_INDEXED, field->entry)
                              : write_literal(&block->bytes, field);
    }
    return result;
}

/* The entry made last has the lowest index. */
static int write_settled(struct gp_block *block)
{
    uint32_t index = GP_HPACK_STATIC_ENTRIES;
    int result = 0;

    for (size_t i = 0; i < block->count; i++)
        index += block->fields[i].indexed;
    for (size_t i = 0; result == 0 && i < block->count; i++) {
        const struct field *field = &block->fields[i];
        if (field->whole)
            result = gp_hpack_put_integer(&block->bytes, GP_HPACK_INDEXED, field->entry);
        else if (field->indexed)
            result = gp_hpack_put_integer(&block->bytes, GP_HPACK_INDEXED, index--);
        else
            result = write_literal(&block->bytes, field);
    }
    return result;
}

const uint8_t *gp_block_next(struct gp_block *block, size_t *size)
{
    if (block->state != AT_REST) {
        gp_bytes_clear(&block->bytes);
        if ((block->state == OPENING ? write_opening(block) : write_settled(block)) != 0)
            return NULL;
        block->state = block->state == OPENING ? SETTLING : AT_REST;
    }
    *size = gp_bytes_length(&block->bytes);
    return gp_bytes_front(&block->bytes);
}

int gp_block_at_rest(const struct gp_block *block)
{
    return block->state == AT_REST;
}

uint32_t gp_block_list_bytes(const struct gp_block *block)
{
    uint32_t bytes = 0;

    for (size_t i = 0; i < block->count; i++)
        bytes += entry_bytes(&block->fields[i]);
    return bytes;
}

void gp_block_destroy(struct gp_block *block)
{
    if (!block)
        return;
    for (size_t i = 0; i < block->count; i++) {
        free(block->fields[i].name);
        free(block->fields[i].value);
    }
    free(block->fields);
    gp_bytes_fini(&block->bytes);
    free(block);
}
