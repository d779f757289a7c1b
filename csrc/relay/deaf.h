/* Sockets that the network has cut off without telling anybody. */
#ifndef GP_RELAY_DEAF_H
#define GP_RELAY_DEAF_H

/* All that comes for a TCP socket is dropped before TCP sees it: its peer gets no acknowledgement, no answer
 * to a keepalive probe, and for a listening one no connection. A Unix socket is left as it is. */
void gp_deaf_set(int fd);
void gp_deaf_clear(int fd);

#endif
