/* The memory that the kernel holds for a process's sockets, asked of the kernel itself (sock_diag). */
#ifndef GP_PROCESS_SOCKETS_H
#define GP_PROCESS_SOCKETS_H

#include <stdint.h>
#include <sys/types.h>

/* The bytes charged to the TCP and Unix sockets that the process has open: what lies in their receive and
 * send queues with its overhead, what they have reserved ahead for the next data, options and backlog. It is
 * not the sockets themselves, which are objects of the kernel's slabs (about 10 KiB for the two ends of a TCP
 * connection) and are charged to nobody: of an idle connection this is near 0. Costs a readlink for each
 * descriptor and a pass over all sockets of the network namespace, 1 µs each.
 *
 * -1 with errno when it cannot be known: the descriptors are not ours to see (EACCES), the process lives in
 * another network namespace (EXDEV), or the kernel has no sock_diag (ENOENT and others). */
int gp_sockets_memory(pid_t pid, uint64_t *bytes);

#endif
