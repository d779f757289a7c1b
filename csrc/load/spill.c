/* spill: the log, and what of it is out. Offsets are the names of records. */
#include "load/spill.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "load/spill_mark.h"

#define LOG "spill.log"
#define MARK "spill.mark"
#define MAGIC "grpcperf spill 1"
#define MAGIC_BYTES (sizeof MAGIC - 1)
#define MOST_OUT 64u

struct head {       /* before each message; read only on the machine that wrote it */
    uint32_t check; /* of all that follows, the message too */
    uint32_t size;
    uint64_t sequence;
    uint64_t repeated;
};

struct out { /* a record that was handed out and is not delivered */
    uint64_t offset;
    bool back; /* it was given back */
    bool repeated;
};

struct gp_spill {
    pthread_mutex_t lock; /* over all below */
    int log, mark_file;
    uint32_t sync_every, unsynced;
    uint64_t next; /* offset of the first record that was not handed out */
    uint64_t end;
    struct gp_spill_mark mark;
    uint64_t suspect_end; /* records before it may have been delivered by another opening */
    struct out *out;
    uint32_t out_count, out_most;
    struct gp_spill_stats stats;
    uint8_t buffer[sizeof(struct head) + GP_SPILL_BYTES];
};

/* --- one record -------------------------------------------------------------------------------- */

static uint32_t check_of(const uint8_t *record, uint32_t size)
{
    return (uint32_t)crc32(0, record + sizeof(uint32_t),
                           (uInt)(sizeof(struct head) - sizeof(uint32_t) + size));
}

/* The record at `offset` into the buffer. Its end; 0: there is no whole and sound one; UINT64_MAX: not
 * readable. */
static uint64_t read_record(struct gp_spill *spill, uint64_t offset)
{
    struct head head;
    ssize_t got = pread(spill->log, spill->buffer, sizeof spill->buffer, (off_t)offset);

    if (got < 0)
        return UINT64_MAX;
    if ((size_t)got < sizeof head)
        return 0;
    memcpy(&head, spill->buffer, sizeof head);
    if (head.size > GP_SPILL_BYTES || (size_t)got < sizeof head + head.size ||
        head.check != check_of(spill->buffer, head.size))
        return 0;
    return offset + sizeof head + head.size;
}

static size_t write_record(struct gp_spill *spill, uint64_t sequence, bool repeated, const void *message,
                           uint32_t size)
{
    struct head head = {.size = size, .sequence = sequence, .repeated = repeated};

    memcpy(spill->buffer, &head, sizeof head);
    memcpy(spill->buffer + sizeof head, message, size);
    head.check = check_of(spill->buffer, size);
    memcpy(spill->buffer, &head.check, sizeof head.check);
    return sizeof head + size;
}

/* --- create ------------------------------------------------------------------------------------ */

static int open_in(const char *directory, const char *name, bool sync, struct gp_error *err)
{
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;

    if (folder >= 0) {
        fd = openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0 && sync &&
            fsync(folder) != 0) { /* that the file is there, too, is to outlive the machine */
            close(fd);
            fd = -1;
        }
        int saved = errno;
        close(folder);
        errno = saved;
    }
    return fd >= 0 ? fd : gp_error_errno(err, "cannot open %s in the spill directory %s", name, directory);
}

static int begin_log(struct gp_spill *spill, const char *directory, struct gp_error *err)
{
    char magic[MAGIC_BYTES] = {0};
    struct stat file;
    ssize_t got = pread(spill->log, magic, sizeof magic, 0);

    if (got < 0 || fstat(spill->log, &file) != 0)
        return gp_error_errno(err, "cannot read %s in %s", LOG, directory);
    if (memcmp(magic, MAGIC, (size_t)got) != 0)
        return gp_error_set(err, GP_ERROR_INVALID, "%s/%s is no spill queue", directory, LOG);
    if ((size_t)got < sizeof magic) { /* new, or the crash came as early as that */
        if (pwrite(spill->log, MAGIC, MAGIC_BYTES, 0) != MAGIC_BYTES)
            return gp_error_errno(err, "cannot begin %s in %s", LOG, directory);
        file.st_size = MAGIC_BYTES;
    }
    spill->end = (uint64_t)file.st_size;
    return 0;
}

/* Walk over the records: cut off what is not whole at the end, count those that are still to be delivered. */
static int recover(struct gp_spill *spill, struct gp_error *err)
{
    uint64_t at = MAGIC_BYTES, end = 0;
    uint64_t done = spill->mark.generation > 0 ? spill->mark.done : 0;

    spill->suspect_end = spill->mark.generation > 0 ? spill->mark.begun : UINT64_MAX;
    spill->next = MAGIC_BYTES;
    for (; at < spill->end && (end = read_record(spill, at)) != 0 && end != UINT64_MAX; at = end) {
        if (end <= done)
            spill->next = end;
        else
            spill->stats.recovered++;
    }
    if (end == UINT64_MAX || (at < spill->end && ftruncate(spill->log, (off_t)at) != 0))
        return gp_error_errno(err, "cannot read the spill queue again");
    spill->stats.cut_bytes = spill->end - at;
    spill->end = at;
    if (spill->suspect_end > spill->end)
        spill->suspect_end = spill->end;
    spill->stats.waiting = spill->stats.recovered;
    return 0;
}

/* What is known now goes to the mark, with `begun` never below what another opening had out. */
static int note(struct gp_spill *spill, struct gp_error *err)
{
    uint64_t done = spill->next;

    for (uint32_t i = 0; i < spill->out_count; i++)
        if (spill->out[i].offset < done)
            done = spill->out[i].offset;
    spill->mark.done = done;
    spill->mark.begun = spill->next > spill->suspect_end ? spill->next : spill->suspect_end;
    return gp_spill_mark_write(spill->mark_file, &spill->mark, spill->sync_every == 1, err);
}

static int open_files(struct gp_spill *spill, const struct gp_spill_opts *opts, struct gp_error *err)
{
    spill->log = open_in(opts->directory, LOG, opts->sync_every > 0, err);
    if (spill->log < 0)
        return -1;
    if (flock(spill->log, LOCK_EX | LOCK_NB) != 0)
        return gp_error_set(err, GP_ERROR_INVALID, "the spill directory %s is in use", opts->directory);
    spill->mark_file = open_in(opts->directory, MARK, opts->sync_every > 0, err);
    if (spill->mark_file < 0 || begin_log(spill, opts->directory, err) < 0 ||
        gp_spill_mark_read(spill->mark_file, &spill->mark, err) < 0 || recover(spill, err) < 0)
        return -1;
    spill->mark.epoch++;
    spill->stats.first_sequence = spill->mark.epoch << GP_SPILL_EPOCH_SHIFT;
    return note(spill, err);
}

int gp_spill_create(struct gp_spill **created, const struct gp_spill_opts *opts, struct gp_error *err)
{
    struct gp_spill *spill = calloc(1, sizeof *spill);

    *created = NULL;
    if (!spill)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for the spill queue");
    pthread_mutex_init(&spill->lock, NULL);
    spill->log = spill->mark_file = -1;
    spill->sync_every = opts->sync_every;
    spill->out_most = opts->most_out > 0 ? opts->most_out : MOST_OUT;
    spill->out = calloc(spill->out_most, sizeof *spill->out);
    if (!spill->out)
        gp_error_set(err, GP_ERROR_ENGINE, "out of memory for the spill queue");
    if (!spill->out || open_files(spill, opts, err) < 0) {
        gp_spill_destroy(spill);
        return -1;
    }
    *created = spill;
    return 0;
}

/* --- in ---------------------------------------------------------------------------------------- */

static int sync_log(struct gp_spill *spill)
{
    uint64_t began_ns = gp_clock_now_ns();
    int status = fdatasync(spill->log);

    spill->unsynced = 0;
    spill->stats.syncs++;
    spill->stats.sync_ns += gp_clock_now_ns() - began_ns;
    return status;
}

static int write_all(int fd, const uint8_t *bytes, size_t size, uint64_t offset)
{
    while (size > 0) {
        ssize_t written = pwrite(fd, bytes, size, (off_t)offset);

        if (written < 0 && errno != EINTR)
            return -1;
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
            offset += (uint64_t)written;
        }
    }
    return 0;
}

static int append(struct gp_spill *spill, size_t size, struct gp_error *err)
{
    if (write_all(spill->log, spill->buffer, size, spill->end) == 0 &&
        (spill->sync_every == 0 || ++spill->unsynced < spill->sync_every || sync_log(spill) == 0)) {
        spill->end += size;
        spill->stats.waiting++;
        spill->stats.appended++;
        spill->stats.appended_bytes += size;
        return 0;
    }
    gp_error_errno(err, "the spill queue does not take a message of %zu bytes", size);
    spill->stats.refused++;
    if (ftruncate(spill->log, (off_t)spill->end) != 0)
        return -1; /* what is left over is overwritten by the next, or cut off by its checksum */
    return -1;
}

int gp_spill_append(struct gp_spill *spill, uint64_t sequence, bool repeated, const void *message,
                    uint32_t size, struct gp_error *err)
{
    int status;

    assert(size <= GP_SPILL_BYTES);
    pthread_mutex_lock(&spill->lock);
    status = append(spill, write_record(spill, sequence, repeated, message, size), err);
    pthread_mutex_unlock(&spill->lock);
    return status;
}

/* --- out --------------------------------------------------------------------------------------- */

static struct out *find_back(struct gp_spill *spill)
{
    for (uint32_t i = 0; i < spill->out_count; i++)
        if (spill->out[i].back)
            return &spill->out[i];
    return NULL;
}

static void fill(struct gp_spill *spill, struct gp_spill_record *record, struct out *out)
{
    struct head head;

    memcpy(&head, spill->buffer, sizeof head);
    record->sequence = head.sequence;
    record->offset = out->offset;
    record->size = head.size;
    record->repeated = out->repeated || head.repeated;
    memcpy(record->message, spill->buffer + sizeof head, head.size);
}

/* The mark is written before the record leaves: if the process dies then, it is known to have been out. */
static int hand_out(struct gp_spill *spill, struct gp_spill_record *record, struct gp_error *err)
{
    struct out *out = find_back(spill);
    uint64_t offset = out ? out->offset : spill->next, end;

    if (!out && (spill->next == spill->end || spill->out_count == spill->out_most))
        return 0;
    end = read_record(spill, offset);
    if (end == 0 || end == UINT64_MAX)
        return gp_error_set(err, GP_ERROR_ENGINE, "the spill queue's log has been damaged at byte %llu",
                            (unsigned long long)offset);
    if (out) {
        out->back = false;
    } else {
        out = &spill->out[spill->out_count++];
        *out = (struct out){.offset = offset, .repeated = offset < spill->suspect_end};
        spill->next = end;
        if (note(spill, err) < 0) {
            spill->out_count--;
            spill->next = offset;
            return -1;
        }
    }
    fill(spill, record, out);
    return 1;
}

int gp_spill_take(struct gp_spill *spill, struct gp_spill_record *record, struct gp_error *err)
{
    int status;

    pthread_mutex_lock(&spill->lock);
    status = hand_out(spill, record, err);
    pthread_mutex_unlock(&spill->lock);
    return status;
}

/* All is delivered: the room is given back. The log first, for a mark beyond its end does no harm. */
static void empty(struct gp_spill *spill)
{
    if (ftruncate(spill->log, MAGIC_BYTES) != 0)
        return;
    spill->end = spill->next = MAGIC_BYTES;
    spill->suspect_end = 0;
    if (spill->sync_every > 0)
        sync_log(spill);
}

static struct out *find_out(struct gp_spill *spill, uint64_t offset)
{
    for (uint32_t i = 0; i < spill->out_count; i++)
        if (spill->out[i].offset == offset)
            return &spill->out[i];
    assert(!"a record that is not out");
    return NULL;
}

/* A mark that cannot be written is one that says less: the record would come again, marked. */
void gp_spill_done(struct gp_spill *spill, const struct gp_spill_record *record)
{
    struct gp_error err;

    pthread_mutex_lock(&spill->lock);
    *find_out(spill, record->offset) = spill->out[spill->out_count - 1];
    spill->out_count--;
    spill->stats.waiting--;
    spill->stats.delivered++;
    if (spill->stats.waiting == 0)
        empty(spill);
    note(spill, &err);
    pthread_mutex_unlock(&spill->lock);
}

void gp_spill_give_back(struct gp_spill *spill, const struct gp_spill_record *record)
{
    struct out *out;

    pthread_mutex_lock(&spill->lock);
    out = find_out(spill, record->offset);
    out->back = out->repeated = true;
    pthread_mutex_unlock(&spill->lock);
}

void gp_spill_stats(struct gp_spill *spill, struct gp_spill_stats *stats)
{
    pthread_mutex_lock(&spill->lock);
    *stats = spill->stats;
    pthread_mutex_unlock(&spill->lock);
}

void gp_spill_destroy(struct gp_spill *spill)
{
    if (!spill)
        return;
    if (spill->log >= 0 && spill->unsynced > 0)
        fdatasync(spill->log);
    if (spill->log >= 0)
        close(spill->log);
    if (spill->mark_file >= 0)
        close(spill->mark_file);
    pthread_mutex_destroy(&spill->lock);
    free(spill->out);
    free(spill);
}
