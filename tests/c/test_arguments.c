/* arguments: the options that all children know, those that one adds, and what they lead to. */
#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "check.h"
#include "process/arguments.h"

static struct gp_arguments arguments;
static struct gp_error err;
static long own;

static int set_own(void *context, const char *text, struct gp_error *error)
{
    return gp_arguments_number(text, 1, 9, context) ? 0
                                                    : gp_arguments_bad(error, "--own", text, "from 1 to 9");
}

static int parse(const char *name, const char *value)
{
    static const struct gp_argument known[] = {{"--own", set_own}, {NULL, NULL}};
    const char *argv[] = {"child", name, value};

    memset(&arguments, 0xa5, sizeof arguments);
    return gp_arguments_parse(&arguments, name ? value ? 3 : 2 : 1, (char *const *)argv, known, &own, &err);
}

static bool refused(const char *name, const char *value)
{
    return parse(name, value) < 0 && err.code == GP_ERROR_INVALID &&
           strstr(err.message, value ? value : name);
}

static void what_is_understood(void)
{
    CHECK(parse(NULL, NULL) == 0 && arguments.control_fd == -1 && arguments.cpu_count == 0);
    CHECK(strcmp(arguments.listen, "127.0.0.1:0") == 0);
    CHECK(parse("--control", "3") == 0 && arguments.control_fd == 3);
    CHECK(parse("--cpus", "0,2,1023") == 0 && arguments.cpu_count == 3 && arguments.cpus[2] == 1023);
    CHECK(parse("--listen", "unix:/tmp/x") == 0 && strcmp(arguments.listen, "unix:/tmp/x") == 0);
    CHECK(parse("--listen", "[::1]:50051") == 0);
    CHECK(parse("--own", "7") == 0 && own == 7);
}

static void what_is_refused(void)
{
    static const char *const pairs[][2] = {
        {"--listen", "127.0.0.1"}, {"--listen", "127.0.0.1:65536"},
        {"--listen", ":1"},        {"--listen", "unix:"},
        {"--control", "x"},        {"--control", "-1"},
        {"--control", ""},         {"--control", "1x"},
        {"--cpus", "0,"},          {"--cpus", "-1"},
        {"--cpus", "1024"},        {"--cpus", "0-3"},
        {"--own", "10"},           {"--own", "0"},
        {"--port", NULL},          {"--own", NULL},
    };

    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)
        CHECK(refused(pairs[i][0], pairs[i][1]));
    CHECK(parse("--own", NULL) < 0 && strstr(err.message, "needs a value"));
    CHECK(parse("--port", "1") < 0 && strstr(err.message, "unknown"));
}

static void addresses(void)
{
    char text[100];

    parse("--listen", "localhost:0");
    gp_arguments_address(&arguments, 4711, text, sizeof text);
    CHECK(strcmp(text, "localhost:4711") == 0);
    parse("--listen", "[::1]:0");
    gp_arguments_address(&arguments, 1, text, sizeof text);
    CHECK(strcmp(text, "[::1]:1") == 0);
    parse("--listen", "unix:/tmp/x");
    gp_arguments_address(&arguments, 0, text, sizeof text);
    CHECK(strcmp(text, "unix:/tmp/x") == 0);
}

static void what_follows_for_the_process(void)
{
    struct rlimit limit;
    cpu_set_t set;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max / 2;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    gp_arguments_raise_fd_limit();
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == limit.rlim_max);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &set))
        cpu++;
    parse(NULL, NULL);
    CHECK(gp_arguments_use_cpus(&arguments, &err) == 0);
    arguments.cpus[0] = (unsigned)cpu;
    arguments.cpu_count = 1;
    CHECK(gp_arguments_use_cpus(&arguments, &err) == 0);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 && CPU_ISSET(cpu, &set));
    arguments.cpus[0] = 1023;
    CHECK(gp_arguments_use_cpus(&arguments, &err) < 0 && strstr(err.message, "--cpus"));
}

int main(void)
{
    what_is_understood();
    what_is_refused();
    addresses();
    what_follows_for_the_process();
    return 0;
}
