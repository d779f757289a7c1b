/* Memory files, and how a child comes to read them. */
#include "process/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "children.h"

#define BIG 300000

static void test_what_is_written_is_read(void)
{
    char text[8] = "";
    int fd = gp_memory_file("test", "secret", 6, 20);
    CHECK(fd >= 20 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    CHECK(read(fd, text, sizeof text) == 6 && strcmp(text, "secret") == 0);
    close(fd);
}

static void test_lifting(void)
{
    int fd = open("/dev/null", O_RDONLY), lifted = gp_lift_fd(fd, 30);
    CHECK(lifted >= 30 && fcntl(fd, F_GETFD) < 0 && fcntl(lifted, F_GETFD) == FD_CLOEXEC);
    CHECK(gp_lift_fd(lifted, 30) == lifted);
    close(lifted);
    CHECK(gp_lift_fd(-1, 30) == -1);
}

/* A limit on descriptors that the second file meets. */
static void test_all_or_none(void)
{
    const struct gp_memory contents[] = {{"a", 1}, {"b", 1}};
    struct rlimit limit;
    int fds[2], before = count_fds(), first = gp_memory_file("test", "", 0, 0);
    close(first);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)first + 1, limit.rlim_max}) == 0);
    CHECK(gp_memory_files("test", contents, 2, 0, fds) == -1 && errno == EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(count_fds() == before);
    CHECK(gp_memory_files("test", contents, 2, 0, fds) == 0);
    close(fds[0]);
    close(fds[1]);
}

/* What the two files say goes to stderr, and nothing else is open. */
static int play_reader(void)
{
    char byte;
    size_t size = 0;
    CHECK(count_fds() == 2 + 4 + 2 + 1); /* two dots, the usual four, two files, and the one that counts */
    while (read(GP_CHILD_FILES_FD, &byte, 1) == 1)
        CHECK(write(2, &byte, 1) == 1);
    int second = open("/proc/self/fd/5", O_RDONLY); /* by name, as a library would */
    while (read(second, &byte, 1) == 1)
        size += byte == 'x';
    CHECK(size == BIG);
    return 0;
}

static void test_a_child_reads_them(void)
{
    const char *argv[] = {"/proc/self/exe", "reader", NULL};
    struct gp_memory contents[] = {{"of the first", 12}, {NULL, BIG}};
    struct gp_child *child;
    char *big = malloc(BIG), text[64];
    int before = count_fds();
    memset(big, 'x', BIG);
    contents[1].data = big;
    CHECK(gp_child_create(&child, &(struct gp_child_opts){.argv = argv, .files = contents, .file_count = 2},
                          NULL) == 0);
    CHECK(count_fds() == before + 4); /* pidfd, control, stdout, stderr */
    CHECK(gp_child_wait(child, SOON));
    size_t size = gp_child_stderr_tail(child, text, sizeof text);
    CHECK(size == 12 && memcmp(text, "of the first", 12) == 0);
    CHECK(died_as(child, "exited with code 0; it last said: of the first"));
    gp_child_destroy(child);
    free(big);
}

/* A writer that appends for ever finds its end where it was, and what is kept is the end. */
static void test_trimming(void)
{
    static char piece[GP_MEMORY_FILE_KEPT];
    struct stat st;
    int fd = gp_memory_file("test", NULL, 0, 3);
    CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0);
    for (int i = 0; i < 100; i++) {
        memset(piece, i, sizeof piece);
        CHECK(write(fd, piece, sizeof piece) == sizeof piece);
        gp_memory_file_trim(fd);
        CHECK(fstat(fd, &st) == 0 && st.st_size == (off_t)(i + 1) * GP_MEMORY_FILE_KEPT);
        CHECK((uint64_t)st.st_blocks * 512 <= GP_MEMORY_FILE_MOST);
        CHECK(pread(fd, piece, sizeof piece, (off_t)i * GP_MEMORY_FILE_KEPT) == sizeof piece);
        CHECK(piece[0] == i && piece[sizeof piece - 1] == i);
    }
    close(fd);
    gp_memory_file_trim(-1);
}

static bool tail_is(int fd, size_t size, const char *expected)
{
    char text[64];
    size_t length = gp_memory_file_tail(fd, text, size);
    return length == strlen(expected) && strcmp(text, expected) == 0;
}

static void test_tails_begin_with_a_line(void)
{
    const char said[] = "first line\nsecond\nthird\n";
    int fd = gp_memory_file("test", said, sizeof said - 1, 3);
    CHECK(tail_is(fd, 64, said));
    CHECK(tail_is(fd, sizeof said, said));
    CHECK(tail_is(fd, sizeof said - 1, "second\nthird\n"));
    CHECK(tail_is(fd, 10, "third\n"));
    CHECK(tail_is(fd, 4, "rd\n")); /* no line begins in what there is room for */
    CHECK(tail_is(fd, 1, ""));
    CHECK(tail_is(-1, 64, ""));
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "reader") == 0)
        return play_reader();
    test_what_is_written_is_read();
    test_lifting();
    test_all_or_none();
    test_a_child_reads_them();
    test_trimming();
    test_tails_begin_with_a_line();
    return 0;
}
