/* Environments in files: whole, empty, with no final zero, and not there. */
#include "process/environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "process/memory_file.h"

static char **read_from(const char *data, size_t size)
{
    int fd = gp_memory_file("test", data, size, 3);
    char **env = gp_environment_read(fd);
    close(fd);
    return env;
}

static void test_every_text(void)
{
    static const char data[] = "A=1\0EMPTY=\0B=two words\nand a line";
    char **env = read_from(data, sizeof data);
    CHECK(strcmp(env[0], "A=1") == 0 && strcmp(env[1], "EMPTY=") == 0);
    CHECK(strcmp(env[2], "B=two words\nand a line") == 0 && !env[3]);
    free(env);
    env = read_from(data, sizeof data - 1);
    CHECK(strcmp(env[2], "B=two words\nand a line") == 0 && !env[3]);
    free(env);
}

static void test_none(void)
{
    char **env = read_from("", 0);
    CHECK(env && !env[0]);
    free(env);
}

static void test_a_large_one(void)
{
    char *data = malloc(500000);
    memset(data, 'x', 500000);
    for (int i = 99; i < 500000; i += 100)
        data[i] = '\0';
    char **env = read_from(data, 500000);
    int count = 0;
    while (env[count])
        CHECK(strlen(env[count++]) == 99);
    CHECK(count == 5000);
    free(env);
    free(data);
}

static void test_no_file(void)
{
    int pair[2];
    CHECK(!gp_environment_read(-1) && errno == EBADF);
    CHECK(pipe(pair) == 0);
    CHECK(write(pair[1], "x", 1) == 1);
    char **env = gp_environment_read(pair[0]); /* a pipe has no size: nothing in it */
    CHECK(env && !env[0]);
    free(env);
}

int main(void)
{
    test_every_text();
    test_none();
    test_a_large_one();
    test_no_file();
    return 0;
}
