/* Runs a fuzz target over the files of a folder: what the fuzzer has found so far is tested without it, by
 * any compiler. */
#include <dirent.h>
#include <stdint.h>

#include "../c/check.h"

#define INPUT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_file(const char *folder, const char *name)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_MAX);
    CHECK(file && data);
    size_t size = fread(data, 1, INPUT_MAX, file);
    CHECK(!ferror(file));
    fclose(file);
    data = realloc(data, size ? size : 1); /* exactly sized, for the sanitizer */
    CHECK(data);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

int main(int argc, char **argv)
{
    unsigned files = 0;

    CHECK(argc == 2);
    DIR *folder = opendir(argv[1]);
    CHECK(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.') {
            run_file(argv[1], entry->d_name);
            files++;
        }
    closedir(folder);
    CHECK(files > 0);
    return 0;
}
