/* Files that are in memory alone: for what a child writes, and for secrets that it is to read. */
#ifndef GP_PROCESS_MEMORY_FILE_H
#define GP_PROCESS_MEMORY_FILE_H

#include <stddef.h>

/* A memory file with this in it, to be read from its start; its descriptor is close-on-exec and at least
 * `low`. -1 with errno. */
int gp_memory_file(const char *name, const void *data, size_t size, int low);

struct gp_memory {
    const void *data;
    size_t size;
};

/* A file for each, or -1 with errno and none. */
int gp_memory_files(const char *name, const struct gp_memory *contents, size_t count, int low, int *fds);

/* What a writer that appends for ever may take: above GP_MEMORY_FILE_MOST bytes of memory, give back all but
 * the last GP_MEMORY_FILE_KEPT. The file's size stays, so that writers go on at its end. */
#define GP_MEMORY_FILE_KEPT (64u * 1024u)
#define GP_MEMORY_FILE_MOST (1024u * 1024u)
void gp_memory_file_trim(int fd);

/* The last bytes of the file as a text, cut at a line's start where there is one; at most
 * GP_MEMORY_FILE_KEPT are sure to be there. Gives their number; none of a bad descriptor. */
size_t gp_memory_file_tail(int fd, char *text, size_t size);

/* Move a descriptor to `low` or above, unless it is there. Takes `fd`, also when it fails: -1 with errno, and
 * -1 stays -1. */
int gp_lift_fd(int fd, int low);

#endif
