/* visitor: bytes from a socket to a responder and back. */
#include "mirror/visitor.h"

#include <stdlib.h>
#include <unistd.h>

#include "net/poller.h"
#include "net/socket.h"
#include "wire/responder.h"

#define PIECES 64u
#define ROUNDS 8u /* writes in a row, before others get their turn */

struct gp_visitor *gp_visitor_create(int fd, struct gp_poller *poller, struct gp_responder_counts *counts)
{
    struct gp_visitor *visitor = calloc(1, sizeof *visitor);

    if (visitor) {
        visitor->fd = fd;
        if (gp_responder_create(&visitor->responder, counts, NULL) == 0 &&
            gp_poller_add(poller, fd, visitor, false, NULL) == 0)
            return visitor;
        gp_responder_destroy(visitor->responder);
    }
    free(visitor);
    close(fd);
    return NULL;
}

/* Say what there is to say. OK: all of it; AGAIN: the socket is full, or it was enough for now. */
static enum gp_io speak(struct gp_visitor *visitor)
{
    struct iovec pieces[PIECES];

    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t written, count = gp_responder_gather(visitor->responder, pieces, PIECES);
        if (count == 0)
            return GP_IO_OK;
        enum gp_io io = gp_socket_write(visitor->fd, pieces, count, &written);
        if (io != GP_IO_OK)
            return io;
        gp_responder_written(visitor->responder, written);
    }
    return GP_IO_AGAIN;
}

/* A last word is tried once: whoever has broken the rules may not be listening. */
static bool listen_to(struct gp_visitor *visitor, uint8_t *buffer)
{
    size_t size;
    enum gp_io io = gp_socket_read(visitor->fd, buffer, GP_VISITOR_READ_BYTES, &size);

    if (io == GP_IO_AGAIN)
        return true;
    if (io == GP_IO_OK && gp_responder_receive(visitor->responder, buffer, size) == 0)
        return true;
    if (io == GP_IO_OK)
        speak(visitor);
    return false;
}

static void want(struct gp_visitor *visitor, struct gp_poller *poller, bool writing)
{
    bool crowded = gp_responder_crowded(visitor->responder);
    int wanted = !writing ? GP_VISITOR_READS : crowded ? GP_VISITOR_WRITES : GP_VISITOR_READS_AND_WRITES;

    if (wanted == (int)visitor->wanted)
        return;
    visitor->wanted = wanted;
    if (wanted == GP_VISITOR_WRITES)
        gp_poller_mute(poller, visitor->fd, visitor);
    else
        gp_poller_want(poller, visitor->fd, visitor, writing);
}

bool gp_visitor_serve(struct gp_visitor *visitor, struct gp_poller *poller, uint8_t *buffer, bool readable)
{
    if (readable && !listen_to(visitor, buffer))
        return false;
    enum gp_io io = speak(visitor);
    if (io == GP_IO_ERROR)
        return false;
    want(visitor, poller, io == GP_IO_AGAIN);
    return true;
}

void gp_visitor_destroy(struct gp_visitor *visitor, struct gp_poller *poller)
{
    gp_poller_remove(poller, visitor->fd);
    close(visitor->fd);
    gp_responder_destroy(visitor->responder);
    free(visitor);
}
