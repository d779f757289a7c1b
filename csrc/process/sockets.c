/* sockets: the inodes of a process's sockets from /proc/<pid>/fd, then one dump of each family over netlink,
 * of which those with these inodes are added up. */
#include "process/sockets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALL_STATES (~(1u << 6 | 1u << 12)) /* but TIME_WAIT and SYN_RECV, which are nobody's */
#define PIECE_BYTES 32768

struct inodes {
    uint32_t *of;
    size_t count, room;
};

static int add(struct inodes *inodes, uint32_t inode)
{
    if (inodes->count == inodes->room) {
        size_t room = inodes->room ? 2 * inodes->room : 64;
        uint32_t *of = realloc(inodes->of, room * sizeof *of);
        if (!of)
            return -1;
        inodes->of = of;
        inodes->room = room;
    }
    inodes->of[inodes->count++] = inode;
    return 0;
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* "socket:[3170286]" of /proc/<pid>/fd/<n> */
static int add_descriptor(struct inodes *inodes, int folder, const char *name)
{
    char target[64];
    unsigned inode;
    ssize_t size = readlinkat(folder, name, target, sizeof target - 1);
    target[size > 0 ? size : 0] = '\0'; /* one that was closed since is no socket */
    return sscanf(target, "socket:[%u]", &inode) == 1 ? add(inodes, inode) : 0;
}

static int collect(pid_t pid, struct inodes *inodes)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    if (!folder)
        return -1;
    int status = 0;
    for (struct dirent *entry; status == 0 && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            status = add_descriptor(inodes, dirfd(folder), entry->d_name);
    int saved = errno;
    closedir(folder);
    errno = saved;
    if (inodes->count > 0)
        qsort(inodes->of, inodes->count, sizeof *inodes->of, compare);
    return status;
}

/* The kernel shows the sockets of our own network namespace. */
static int check_namespace(pid_t pid)
{
    struct stat ours, theirs;
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
    if (stat("/proc/self/ns/net", &ours) < 0 || stat(path, &theirs) < 0)
        return -1;
    if (ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev)
        return 0;
    errno = EXDEV;
    return -1;
}

static bool find(const struct inodes *inodes, uint32_t inode)
{
    return inodes->count > 0 && bsearch(&inode, inodes->of, inodes->count, sizeof inode, compare);
}

/* Of TCP the send queue is wmem_queued, and what of it is on its way is in wmem_alloc too; a Unix socket has
 * only the latter, until the other end has read it. */
static uint64_t memory(const uint32_t *info)
{
    uint32_t queued = info[SK_MEMINFO_WMEM_QUEUED], away = info[SK_MEMINFO_WMEM_ALLOC];
    return (uint64_t)info[SK_MEMINFO_RMEM_ALLOC] + (queued > away ? queued : away) +
           info[SK_MEMINFO_FWD_ALLOC] + info[SK_MEMINFO_OPTMEM] + info[SK_MEMINFO_BACKLOG];
}

static uint64_t memory_among(const struct rtattr *attribute, int length, int wanted)
{
    for (; RTA_OK(attribute, length); attribute = RTA_NEXT(attribute, length))
        if (attribute->rta_type == wanted &&
            RTA_PAYLOAD(attribute) >= (SK_MEMINFO_BACKLOG + 1) * sizeof(uint32_t))
            return memory(RTA_DATA(attribute));
    return 0;
}

/* What one message of a dump adds. */
static uint64_t memory_of(const struct nlmsghdr *message, const struct inodes *inodes)
{
    const void *body = NLMSG_DATA(message);
    int size = (int)NLMSG_PAYLOAD(message, 0);
    bool local = size > 0 && *(const uint8_t *)body == AF_UNIX; /* the family comes first in both */
    int head = local ? (int)sizeof(struct unix_diag_msg) : (int)sizeof(struct inet_diag_msg);
    if (size < head)
        return 0;
    uint32_t inode = local ? ((const struct unix_diag_msg *)body)->udiag_ino
                           : ((const struct inet_diag_msg *)body)->idiag_inode;
    const struct rtattr *attributes = (const void *)((const char *)body + NLMSG_ALIGN((size_t)head));
    int length = size - (int)NLMSG_ALIGN((size_t)head);
    return find(inodes, inode)
               ? memory_among(attributes, length, local ? UNIX_DIAG_MEMINFO : INET_DIAG_SKMEMINFO)
               : 0;
}

/* The error that ends a dump; 0 when it is complete. */
static int error_of(const struct nlmsghdr *message)
{
    const struct nlmsgerr *told = NLMSG_DATA(message);
    return message->nlmsg_type == NLMSG_ERROR && message->nlmsg_len >= NLMSG_LENGTH(sizeof *told)
               ? -told->error
               : 0;
}

static int add_dump(int netlink, const struct inodes *inodes, uint64_t *bytes)
{
    _Alignas(struct nlmsghdr) char piece[PIECE_BYTES];
    for (;;) {
        ssize_t got = recv(netlink, piece, sizeof piece, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        const struct nlmsghdr *message = (const void *)piece; /* NLMSG_NEXT may leave less than nothing */
        for (int left = (int)got; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
            if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) {
                errno = error_of(message);
                return errno ? -1 : 0;
            }
            *bytes += memory_of(message, inodes);
        }
    }
}

static int ask(int netlink, uint16_t type, const void *question, size_t size, const struct inodes *inodes,
               uint64_t *bytes)
{
    struct {
        struct nlmsghdr head;
        char body[sizeof(struct inet_diag_req)];
    } request = {
        .head = {.nlmsg_len = (uint32_t)NLMSG_LENGTH(size),
                 .nlmsg_type = type,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
    };
    memcpy(request.body, question, size);
    if (send(netlink, &request, request.head.nlmsg_len, 0) < 0)
        return -1;
    return add_dump(netlink, inodes, bytes);
}

/* The older of two questions: it has IPv4 and IPv6 in one pass over the table, which is most of the cost. */
static int add_tcp(int netlink, const struct inodes *inodes, uint64_t *bytes)
{
    struct inet_diag_req question = {
        .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
        .idiag_states = ALL_STATES,
    };
    return ask(netlink, TCPDIAG_GETSOCK, &question, sizeof question, inodes, bytes);
}

static int add_unix(int netlink, const struct inodes *inodes, uint64_t *bytes)
{
    struct unix_diag_req question = {
        .sdiag_family = AF_UNIX,
        .udiag_states = ALL_STATES,
        .udiag_show = UDIAG_SHOW_MEMINFO,
    };
    return ask(netlink, SOCK_DIAG_BY_FAMILY, &question, sizeof question, inodes, bytes);
}

/* A kernel built without unix_diag does not tell of those. */
static int add_all(const struct inodes *inodes, uint64_t *bytes)
{
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (netlink < 0)
        return -1;
    int status = add_tcp(netlink, inodes, bytes);
    if (status == 0)
        status = add_unix(netlink, inodes, bytes) < 0 && errno != ENOENT ? -1 : 0;
    int saved = errno;
    close(netlink);
    errno = saved;
    return status;
}

int gp_sockets_memory(pid_t pid, uint64_t *bytes)
{
    struct inodes inodes = {0};
    *bytes = 0;
    int status = collect(pid, &inodes);
    if (status == 0 && inodes.count > 0)
        status = check_namespace(pid) < 0 ? -1 : add_all(&inodes, bytes);
    int saved = errno;
    free(inodes.of);
    errno = saved;
    return status;
}
