/* spill: what goes in comes out, whatever cuts the file or ends the process; once, or marked. */
#include "load/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "check.h"

static char directory[64], log_path[96], mark_path[96];
static struct gp_error err;

static void clear(void)
{
    unlink(log_path);
    unlink(mark_path);
}

static struct gp_spill *opened(uint32_t sync_every)
{
    struct gp_spill_opts opts = {.directory = directory, .sync_every = sync_every};
    struct gp_spill *spill;

    CHECK(gp_spill_create(&spill, &opts, &err) == 0);
    return spill;
}

static struct gp_spill_stats stats_of(struct gp_spill *spill)
{
    struct gp_spill_stats stats;

    gp_spill_stats(spill, &stats);
    return stats;
}

/* The message of a sequence number: of a length and bytes that follow from it. */
static uint32_t message_of(uint64_t sequence, uint8_t *message)
{
    uint32_t size = (uint32_t)(gp_random_at(1, sequence) % 60);

    for (uint32_t i = 0; i < size; i++)
        message[i] = (uint8_t)(sequence * 7 + i);
    return size;
}

static int append(struct gp_spill *spill, uint64_t sequence)
{
    uint8_t message[64];
    uint32_t size = message_of(sequence, message);

    return gp_spill_append(spill, sequence, false, message, size, &err);
}

static bool take(struct gp_spill *spill, struct gp_spill_record *record)
{
    uint8_t message[64];
    int status = gp_spill_take(spill, record, &err);

    CHECK(status >= 0);
    if (status == 0)
        return false;
    CHECK(record->size == message_of(record->sequence, message));
    CHECK(memcmp(record->message, message, record->size) == 0);
    return true;
}

static off_t size_of(const char *path)
{
    struct stat file;

    CHECK(stat(path, &file) == 0);
    return file.st_size;
}

static void test_in_and_out(void)
{
    struct gp_spill *spill = opened(0);
    struct gp_spill_record record;
    off_t empty = size_of(log_path);

    CHECK(stats_of(spill).first_sequence == UINT64_C(1) << GP_SPILL_EPOCH_SHIFT);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 1; i <= 100; i++)
            CHECK(append(spill, i) == 0);
        CHECK(size_of(log_path) > empty && stats_of(spill).waiting == 100);
        for (uint64_t i = 1; i <= 100; i++) {
            CHECK(take(spill, &record) && record.sequence == i && !record.repeated);
            gp_spill_done(spill, &record);
        }
        CHECK(!take(spill, &record) && stats_of(spill).waiting == 0);
        CHECK(size_of(log_path) == empty); /* the room is given back */
    }
    CHECK(stats_of(spill).appended == 300 && stats_of(spill).delivered == 300);
    gp_spill_destroy(spill);
    gp_spill_destroy(NULL);
    spill = opened(0);
    CHECK(stats_of(spill).recovered == 0 && !take(spill, &record));
    CHECK(stats_of(spill).first_sequence == UINT64_C(2) << GP_SPILL_EPOCH_SHIFT);
    gp_spill_destroy(spill);
}

/* Out of order, given back, and no more out than allowed. */
static void test_several_out(void)
{
    struct gp_spill_opts opts = {.directory = directory, .most_out = 3};
    struct gp_spill_record out[4];
    struct gp_spill *spill;

    CHECK(gp_spill_create(&spill, &opts, &err) == 0);
    for (uint64_t i = 1; i <= 10; i++)
        CHECK(append(spill, i) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(take(spill, &out[i]));
    CHECK(!take(spill, &out[3]));
    gp_spill_done(spill, &out[1]);
    gp_spill_give_back(spill, &out[2]);
    CHECK(take(spill, &out[3]) && out[3].sequence == 3 && out[3].repeated); /* before newer ones */
    CHECK(take(spill, &out[2]) && out[2].sequence == 4 && !out[2].repeated);
    gp_spill_done(spill, &out[2]);
    gp_spill_destroy(spill);
    spill = opened(0); /* 1 and 3 were out; 2 and 4 are delivered, but come again, for 1 is before them */
    CHECK(stats_of(spill).recovered == 10);
    for (uint64_t i = 1; i <= 10; i++) {
        CHECK(take(spill, &out[0]) && out[0].sequence == i && out[0].repeated == (i <= 4));
        gp_spill_done(spill, &out[0]);
    }
    CHECK(!take(spill, &out[0]));
    gp_spill_destroy(spill);
}

static void test_marked_by_the_writer(void)
{
    struct gp_spill *spill = opened(0);
    struct gp_spill_record record;

    CHECK(gp_spill_append(spill, 9, true, "", 0, &err) == 0);
    CHECK(gp_spill_take(spill, &record, &err) == 1 && record.repeated && record.size == 0);
    gp_spill_done(spill, &record);
    gp_spill_destroy(spill);
}

static void test_sync_policy(void)
{
    static const struct {
        uint32_t every;
        uint64_t syncs;
    } rows[] = {{0, 0}, {1, 40}, {8, 5}, {50, 0}};

    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct gp_spill *spill = opened(rows[row].every);

        for (uint64_t i = 1; i <= 40; i++)
            CHECK(append(spill, i) == 0);
        CHECK(stats_of(spill).syncs == rows[row].syncs);
        CHECK((stats_of(spill).sync_ns > 0) == (rows[row].syncs > 0));
        gp_spill_destroy(spill);
        clear();
    }
}

static size_t slurp(const char *path, uint8_t *bytes, size_t capacity)
{
    int fd = open(path, O_RDONLY);
    ssize_t got = read(fd, bytes, capacity);

    CHECK(fd >= 0 && got >= 0 && (size_t)got < capacity);
    close(fd);
    return (size_t)got;
}

static void put(const char *path, const uint8_t *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

/* What is left comes out as it went in and in order (take checks the bytes), and the queue goes on. Returns
 * the number of records. */
static uint64_t survivors(void)
{
    struct gp_spill *spill = opened(0);
    struct gp_spill_record record;
    uint64_t count = 0, before = 0;

    while (take(spill, &record)) {
        CHECK(record.sequence > before);
        before = record.sequence;
        gp_spill_done(spill, &record);
        count++;
    }
    CHECK(count == stats_of(spill).recovered);
    CHECK(append(spill, 1000) == 0 && take(spill, &record) && record.sequence == 1000 && !record.repeated);
    gp_spill_done(spill, &record);
    gp_spill_destroy(spill);
    return count;
}

/* A file of 20 records, and where each of them ends. */
static size_t make_log(uint8_t *bytes, size_t capacity, uint8_t *mark, size_t *mark_bytes, off_t ends[21])
{
    struct gp_spill *spill = opened(0);

    ends[0] = size_of(log_path);
    for (uint64_t i = 1; i <= 20; i++) {
        CHECK(append(spill, i) == 0);
        ends[i] = size_of(log_path);
    }
    gp_spill_destroy(spill);
    *mark_bytes = slurp(mark_path, mark, 256);
    return slurp(log_path, bytes, capacity);
}

static void test_cut_at_every_byte(void)
{
    static uint8_t bytes[8192];
    uint8_t mark[256];
    size_t mark_bytes, size;
    off_t ends[21];

    size = make_log(bytes, sizeof bytes, mark, &mark_bytes, ends);
    for (size_t cut = 0; cut <= size; cut++) {
        uint64_t whole = 0;

        put(log_path, bytes, cut);
        put(mark_path, mark, mark_bytes);
        while (whole < 20 && (off_t)cut >= ends[whole + 1])
            whole++;
        CHECK(survivors() == whole);
    }
    clear();
}

/* Bytes changed, added, made zero, and marks of any kind: what is sound up to there comes out, nothing else.
 */
static void test_damaged(void)
{
    static uint8_t bytes[8192], copy[8192 + 256];
    uint8_t mark[256], bad[256];
    size_t mark_bytes, size;
    off_t ends[21];
    struct gp_random random;

    size = make_log(bytes, sizeof bytes, mark, &mark_bytes, ends);
    gp_random_init(&random, 7);
    for (int round = 0; round < 600; round++) {
        size_t at = (size_t)ends[0] + gp_random_u64(&random) % (size - (size_t)ends[0]);
        size_t tail = gp_random_u64(&random) % 256;
        uint64_t whole = 0;

        memcpy(copy, bytes, size);
        memset(copy + size, 0, tail); /* as a file system may leave it */
        copy[at] ^= (uint8_t)(1u << gp_random_u64(&random) % 8);
        put(log_path, copy, size + tail);
        memcpy(bad, mark, mark_bytes);
        bad[gp_random_u64(&random) % mark_bytes] ^= round % 3 ? 0 : 0xff;
        put(mark_path, bad, round % 5 ? mark_bytes : gp_random_u64(&random) % mark_bytes);
        while (ends[whole + 1] <= (off_t)at)
            whole++;
        CHECK(survivors() == whole);
    }
    clear();
}

static void test_mark_is_lost(void)
{
    struct gp_spill *spill = opened(0);
    struct gp_spill_record record;

    for (uint64_t i = 1; i <= 5; i++)
        CHECK(append(spill, i) == 0);
    CHECK(take(spill, &record));
    gp_spill_done(spill, &record);
    gp_spill_destroy(spill);
    unlink(mark_path);
    spill = opened(0);
    for (uint64_t i = 1; i <= 5; i++) /* any of them may have been delivered */
        CHECK(take(spill, &record) && record.sequence == i && record.repeated);
    gp_spill_destroy(spill);
    clear();
}

/* Of two marks the newer one was torn: what the older one says is still true, if less. */
static void test_mark_is_torn(void)
{
    struct gp_spill *spill = opened(0);
    struct gp_spill_record record;
    uint8_t mark[256];
    uint64_t first, second;
    size_t size;

    for (uint64_t i = 1; i <= 5; i++)
        CHECK(append(spill, i) == 0);
    CHECK(take(spill, &record));
    gp_spill_done(spill, &record);
    gp_spill_destroy(spill);
    size = slurp(mark_path, mark, sizeof mark);
    CHECK(size > 64);
    memcpy(&first, mark, sizeof first); /* their generations */
    memcpy(&second, mark + 64, sizeof second);
    CHECK(first != second);
    mark[(first > second ? 0 : 64) + 20] ^= 1;
    put(mark_path, mark, size);
    spill = opened(0);
    for (uint64_t i = 1; i <= 5; i++) /* the first was out by then */
        CHECK(take(spill, &record) && record.sequence == i && record.repeated == (i == 1));
    gp_spill_destroy(spill);
    clear();
}

/* --- SIGKILL ----------------------------------------------------------------------------------- */

#define MOST 200000u

struct seen { /* what a process did, written as it did it, for those who come after it */
    uint64_t next;
    uint8_t appended[MOST], delivered[MOST], delivered_unmarked[MOST];
};

static void deliver(struct seen *seen, const struct gp_spill_record *record)
{
    seen->delivered[record->sequence]++;
    seen->delivered_unmarked[record->sequence] += !record->repeated;
}

static void work_until_killed(struct seen *seen, uint32_t sync_every)
{
    struct gp_spill *spill = opened(sync_every);
    struct gp_spill_record out[4]; /* delivered, and not yet said to be */
    uint64_t outs = 0;

    for (uint64_t turn = 0;; turn++) {
        uint64_t sequence = seen->next;

        if (sequence + 1 < MOST && turn % 7 < 4) {
            seen->next = sequence + 1; /* before: a number is never used twice */
            CHECK(append(spill, sequence) == 0);
            seen->appended[sequence] = 1;
            continue;
        }
        if (outs >= 4)
            gp_spill_done(spill, &out[outs % 4]);
        if (!take(spill, &out[outs % 4]))
            break;
        deliver(seen, &out[outs++ % 4]);
    }
    CHECK(!"ever empty: more goes in than out");
}

static void test_killed(void)
{
    struct seen *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct gp_spill_record record;
    struct gp_spill *spill;
    uint64_t twice = 0, appended = 0;

    CHECK(seen != MAP_FAILED);
    seen->next = 1;
    for (unsigned round = 0; round < 40; round++) {
        pid_t pid = fork();

        CHECK(pid >= 0);
        if (pid == 0)
            work_until_killed(seen, round % 4 ? 0 : 16);
        usleep(2000 + (unsigned)(gp_random_at(3, round) % 6000));
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    }
    spill = opened(0);
    while (take(spill, &record)) {
        deliver(seen, &record);
        gp_spill_done(spill, &record);
    }
    gp_spill_destroy(spill);
    for (uint64_t i = 1; i < seen->next; i++) {
        appended += seen->appended[i];
        twice += seen->delivered[i] > 1;
        CHECK(seen->delivered[i] >= seen->appended[i]); /* nothing that was in is lost */
        CHECK(seen->delivered_unmarked[i] <= 1);        /* and what came again said so */
    }
    CHECK(appended > 1000 && twice > 0);
    fprintf(stderr, "killed 40 times: %llu records, %llu of them delivered twice, marked\n",
            (unsigned long long)appended, (unsigned long long)twice);
    munmap(seen, sizeof *seen);
    clear();
}

/* --- no room ----------------------------------------------------------------------------------- */

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void test_disk_full(void)
{
    struct gp_spill *spill = opened(1);
    struct gp_spill_record record;
    uint64_t in = 0;
    off_t size;

    signal(SIGXFSZ, SIG_IGN);
    limit_file_size(3000);
    size = size_of(log_path);
    for (; append(spill, in + 1) == 0; in++)
        size = size_of(log_path);
    CHECK(in > 10 && err.code == GP_ERROR_ENGINE && err.os_errno == EFBIG && stats_of(spill).refused == 1);
    CHECK(size_of(log_path) == size); /* nothing of it is left */
    CHECK(append(spill, in + 1) < 0 && size_of(log_path) == size);
    CHECK(take(spill, &record) && record.sequence == 1); /* what is in can leave */
    gp_spill_done(spill, &record);
    limit_file_size(RLIM_INFINITY);
    CHECK(append(spill, in + 1) == 0);
    gp_spill_destroy(spill);
    spill = opened(0);
    CHECK(stats_of(spill).recovered == in && stats_of(spill).cut_bytes == 0);
    gp_spill_destroy(spill);
    clear();
}

static void test_refused(void)
{
    struct gp_spill_opts opts = {.directory = directory}, nowhere = {.directory = "/nonexistent"};
    struct gp_spill *spill = opened(0), *other;

    CHECK(gp_spill_create(&other, &opts, &err) < 0 && err.code == GP_ERROR_INVALID && !other);
    CHECK(strstr(err.message, "in use"));
    gp_spill_destroy(spill);
    put(log_path, (const uint8_t *)"somebody else's file", 20);
    CHECK(gp_spill_create(&other, &opts, &err) < 0 && strstr(err.message, "no spill queue"));
    CHECK(size_of(log_path) == 20);
    CHECK(gp_spill_create(&other, &nowhere, &err) < 0 && err.os_errno == ENOENT);
    clear();
}

int main(void)
{
    snprintf(directory, sizeof directory, "/tmp/gp-spill-XXXXXX");
    CHECK(mkdtemp(directory));
    snprintf(log_path, sizeof log_path, "%s/spill.log", directory);
    snprintf(mark_path, sizeof mark_path, "%s/spill.mark", directory);
    test_in_and_out();
    clear();
    test_several_out();
    clear();
    test_marked_by_the_writer();
    clear();
    test_sync_policy();
    test_cut_at_every_byte();
    test_damaged();
    test_mark_is_lost();
    test_mark_is_torn();
    test_killed();
    test_disk_full();
    test_refused();
    CHECK(rmdir(directory) == 0);
    return 0;
}
