/* grpcperf-codec: times one codec in a process of its own, so that a counter of allocations can be loaded
 * into it, and so that no codec's library is in anybody else's.
 *
 *   list                                     what there is, as JSON
 *   write CODEC                              the record encoded, as it is
 *   time CODEC|buffer OPERATION MEMORY OPS   {"ns": of all, "encoded_bytes": of one}
 *
 * Exit codes: 0, 1 it did not work, 2 the command line makes no sense. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/bench.h"

static const char *const memories[] = {
    [GP_CODEC_MALLOC] = "malloc",
    [GP_CODEC_ARENA] = "arena",
    [GP_CODEC_REUSE] = "reuse",
};
static const char *const operations[] = {
    [GP_CODEC_ENCODE] = "encode",
    [GP_CODEC_DECODE] = "decode",
    [GP_CODEC_DECODE_TRUSTED] = "decode_trusted",
};

static int usage(void)
{
    fputs("usage: grpcperf-codec list | write CODEC | time CODEC|buffer encode|decode|decode_trusted "
          "malloc|arena|reuse OPS\n",
          stderr);
    return 2;
}

static int fail(const struct gp_error *err)
{
    fprintf(stderr, "grpcperf-codec: %s\n", err->message);
    return err->code == GP_ERROR_INVALID ? 2 : 1;
}

static const struct gp_codec *find(const char *name)
{
    if (strcmp(name, gp_codec_buffer.name) == 0)
        return &gp_codec_buffer;
    const struct gp_codec *codec = NULL;
    for (size_t i = 0; (codec = gp_codec_at(i)) && strcmp(name, codec->name) != 0;)
        i++;
    return codec;
}

/* The index of a word among some, -1 when it is none of them. */
static int among(const char *const words[], int count, const char *word)
{
    while (--count >= 0 && strcmp(words[count], word) != 0)
        ;
    return count;
}

static void print_memories(const struct gp_codec *codec, enum gp_codec_operation operation)
{
    const char *between = "";
    printf(", \"%s\": [", operations[operation]);
    for (int memory = 0; memory < GP_CODEC_MEMORIES; memory++)
        if (gp_codec_memories(codec, operation) & GP_CODEC_CAN(memory)) {
            printf("%s\"%s\"", between, memories[memory]);
            between = ", ";
        }
    printf("]");
}

static int list(void)
{
    const struct gp_codec *codec;
    printf("[");
    for (size_t i = 0; (codec = gp_codec_at(i)); i++) {
        printf("%s{\"name\": \"%s\", \"version\": \"%s\"", i ? ", " : "", codec->name, codec->version());
        for (int operation = 0; operation < GP_CODEC_OPERATIONS; operation++)
            print_memories(codec, (enum gp_codec_operation)operation);
        printf("}");
    }
    printf("]\n");
    return 0;
}

static int write_encoded(const struct gp_codec *codec)
{
    struct gp_error err;
    size_t size;
    uint8_t *encoded = gp_codec_encoded(codec, &size, &err);
    if (!encoded)
        return fail(&err);
    fwrite(encoded, 1, size, stdout);
    free(encoded);
    return 0;
}

static int time_ops(const struct gp_codec *codec, char **words)
{
    int operation = among(operations, GP_CODEC_OPERATIONS, words[0]);
    int memory = among(memories, GP_CODEC_MEMORIES, words[1]);
    struct gp_codec_timing timing;
    struct gp_error err;
    char *end;
    errno = 0;
    unsigned long long ops = strtoull(words[2], &end, 10);
    if (operation < 0 || memory < 0 || errno || end == words[2] || *end || words[2][0] == '-')
        return usage();
    if (gp_codec_time(codec, (enum gp_codec_operation)operation, (enum gp_codec_memory)memory, ops, &timing,
                      &err) < 0)
        return fail(&err);
    printf("{\"ns\": %llu, \"encoded_bytes\": %zu}\n", (unsigned long long)timing.ns, timing.encoded_bytes);
    return 0;
}

int main(int argc, char **argv)
{
    const struct gp_codec *codec = argc > 2 ? find(argv[2]) : NULL;
    int status;

    if (argc == 2 && strcmp(argv[1], "list") == 0)
        status = list();
    else if (argc == 3 && codec && codec != &gp_codec_buffer && strcmp(argv[1], "write") == 0)
        status = write_encoded(codec);
    else if (argc == 6 && codec && strcmp(argv[1], "time") == 0)
        status = time_ops(codec, argv + 3);
    else
        status = usage();
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("grpcperf-codec: stdout cannot be written\n", stderr);
        return 1;
    }
    return status;
}
