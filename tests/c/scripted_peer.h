/* A peer for tests of what connects: a listener on a thread of its own that says what it was told to say. */
#ifndef GP_TESTS_SCRIPTED_PEER_H
#define GP_TESTS_SCRIPTED_PEER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

/* What a peer does with each connection: read `reads` bytes, say `says`, linger until the other side is
 * through, close (or reset). */
struct peer {
    const char *says;
    size_t size, reads;
    bool linger, reset, piecemeal;
    int listener;
    atomic_int visits;
    char address[160];
    char heard[512];
    size_t heard_size;
    atomic_bool leave;
    pthread_t thread;
};

static void hear(struct peer *peer, int fd, size_t until)
{
    while (peer->heard_size < until && peer->heard_size < sizeof peer->heard) {
        ssize_t got = recv(fd, peer->heard + peer->heard_size, sizeof peer->heard - peer->heard_size, 0);
        if (got <= 0)
            return;
        peer->heard_size += (size_t)got;
    }
}

static void serve(struct peer *peer, int fd)
{
    peer->heard_size = 0;
    hear(peer, fd, peer->reads);
    for (size_t i = 0; peer->piecemeal && i < peer->size; i++) {
        send(fd, peer->says + i, 1, MSG_NOSIGNAL);
        usleep(500);
    }
    if (peer->size && !peer->piecemeal)
        send(fd, peer->says, peer->size, MSG_NOSIGNAL);
    if (peer->linger)
        hear(peer, fd, sizeof peer->heard);
    struct linger abort_it = {.l_onoff = 1};
    if (peer->reset)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it);
    close(fd);
}

static void *run_peer(void *argument)
{
    struct peer *peer = argument;

    for (;;) {
        int fd = accept(peer->listener, NULL, NULL);
        if (peer->leave || fd < 0)
            return NULL;
        peer->visits++;
        serve(peer, fd);
    }
}

static int listen_tcp(int family, char *address, size_t size)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *any = family == AF_INET ? (struct sockaddr *)&in : (struct sockaddr *)&in6;
    socklen_t length = family == AF_INET ? sizeof in : sizeof in6;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, any, length) || listen(fd, 8) || getsockname(fd, any, &length)) {
        close(fd);
        return -1;
    }
    snprintf(address, size, family == AF_INET ? "127.0.0.1:%u" : "[::1]:%u",
             ntohs(family == AF_INET ? in.sin_port : in6.sin6_port));
    return fd;
}

static void start_peer(struct peer *peer)
{
    if (!peer->listener)
        peer->listener = listen_tcp(AF_INET, peer->address, sizeof peer->address);
    CHECK(peer->listener >= 0);
    CHECK(pthread_create(&peer->thread, NULL, run_peer, peer) == 0);
}

static void stop_peer(struct peer *peer)
{
    peer->leave = true;
    shutdown(peer->listener, SHUT_RDWR); /* wakes accept */
    CHECK(pthread_join(peer->thread, NULL) == 0);
    close(peer->listener);
}

#endif
