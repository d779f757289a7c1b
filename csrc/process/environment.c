/* environment: see the header. */
#include "process/environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t count_texts(const char *text, size_t size)
{
    size_t count = 0;
    for (const char *at = text; at < text + size; at += strlen(at) + 1)
        count++;
    return count;
}

static ssize_t read_whole(int fd, char *text, size_t size)
{
    size_t length = 0;
    ssize_t got = 1;
    while (length < size && got > 0) {
        got = pread(fd, text + length, size - length, (off_t)length);
        length += got > 0 ? (size_t)got : 0;
    }
    text[length] = '\0';
    return got < 0 ? -1 : (ssize_t)length;
}

/* The texts first, moved behind the array once it is known how long that is. */
char **gp_environment_read(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return NULL;
    size_t size = (size_t)st.st_size;
    char *text = malloc(size + 1);
    if (!text || read_whole(fd, text, size) != (ssize_t)size) {
        free(text);
        return NULL;
    }
    size_t count = count_texts(text, size), array = (count + 1) * sizeof(char *);
    char **env = malloc(array + size + 1);
    if (env) {
        char *at = memcpy((char *)env + array, text, size + 1);
        for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
            env[i] = at;
        env[count] = NULL;
    }
    free(text);
    return env;
}
