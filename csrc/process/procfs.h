/* What the kernel tells of any process, read from outside: /proc. Costs about 60 µs a reading without PSS. */
#ifndef GP_PROCESS_PROCFS_H
#define GP_PROCESS_PROCFS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_error;

struct gp_procfs_sample {
    uint64_t time_ns; /* CLOCK_MONOTONIC of the reading */
    uint64_t rss_bytes, rss_anon_bytes, peak_rss_bytes;
    uint64_t pss_bytes;      /* only with GP_PROCFS_PSS */
    uint64_t writable_bytes; /* private writable mappings; only with GP_PROCFS_MAPS */
    uint32_t mappings;       /* their number, all of them; only with GP_PROCFS_MAPS */
    double cpu_user_s, cpu_system_s;
    uint32_t threads;
    uint32_t fds;              /* only with GP_PROCFS_FDS */
    uint32_t sockets;          /* those of the fds that are sockets; only with GP_PROCFS_SOCKETS */
    uint64_t socket_bytes;     /* see gp_sockets_memory; only with GP_PROCFS_SOCKET_MEMORY */
    uint64_t context_switches; /* voluntary and not, of the threads alive; only with GP_PROCFS_SWITCHES */
    unsigned
        known; /* the parts that could be read: those of another user's process are mostly not ours to see */
};

enum gp_procfs_parts {
    GP_PROCFS_PSS = 1,            /* smaps_rollup: 0.5 ms at 15 MB, 24 ms at 4 GiB */
    GP_PROCFS_MAPS = 2,           /* maps */
    GP_PROCFS_SOCKETS = 4,        /* a readlink for each descriptor */
    GP_PROCFS_SWITCHES = 8,       /* a file for each thread */
    GP_PROCFS_FDS = 16,           /* a directory with an entry for each descriptor */
    GP_PROCFS_SOCKET_MEMORY = 32, /* a readlink for each descriptor, and all sockets of the namespace */
};

/* Read process `pid`; `parts` is a sum of gp_procfs_parts. GP_ERROR_DIED when there is no such process (or it
 * is a zombie). */
int gp_procfs_sample(pid_t pid, unsigned parts, struct gp_procfs_sample *sample, struct gp_error *err);

/* Descriptor limits of a process (0: this one). -1 when unknown. */
int gp_procfs_fd_limit(pid_t pid, uint64_t *soft, uint64_t *hard);

#endif
