/* address: between the text of an address and the kernel's structures. No look-up and no socket here. */
#include "net/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/error.h"

#define LONGEST_PATH (sizeof((struct sockaddr_un *)0)->sun_path - 1)
#define LONGEST_NAME 253u /* RFC 1035: 255 octets on the wire */

/* Control characters would break the one line a message is. */
static void printable(const char *text, char *out, size_t size)
{
    size_t i = 0;

    for (; text[i] && i < size - 1; i++)
        out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    out[i] = '\0';
}

static int refuse(const char *text, const char *why, struct gp_error *err)
{
    char shown[200];

    printable(text, shown, sizeof shown);
    return gp_error_set(err, GP_ERROR_INVALID,
                        "address \"%s\": %s; expected \"host:port\" with port 1..65535, \"[ipv6]:port\" or "
                        "\"unix:/path\"",
                        shown, why);
}

static int parse_unix(const char *text, const char *path, struct gp_address *address, struct gp_error *err)
{
    char why[64];

    if (*path == '\0')
        return refuse(text, "the path is missing", err);
    if (strlen(path) > LONGEST_PATH) {
        snprintf(why, sizeof why, "a socket's path has at most %zu bytes", LONGEST_PATH);
        return refuse(text, why, err);
    }
    address->is_unix = true;
    strcpy(address->host, path);
    strcpy(address->authority, "localhost");
    return 0;
}

static int parse_port(const char *text, const char *port, struct gp_address *address, struct gp_error *err)
{
    size_t digits = strspn(port, "0123456789");

    if (*port == '\0')
        return refuse(text, "the port is missing", err);
    if (port[digits] != '\0')
        return refuse(text, "the port is not a number", err);
    while (*port == '0' && port[1])
        port++;
    if (strlen(port) > 5 || atoi(port) < 1 || atoi(port) > 65535)
        return refuse(text, "there is no such port", err);
    strcpy(address->port, port);
    return 0;
}

/* "fe80::1%eth0" is an address with a zone, which means something on this machine only. */
static bool is_ipv6(const char *host)
{
    char bare[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    size_t length = strcspn(host, "%");

    if (length >= sizeof bare)
        return false;
    memcpy(bare, host, length);
    bare[length] = '\0';
    return inet_pton(AF_INET6, bare, &parsed) == 1;
}

static int parse_bracketed(const char *text, struct gp_address *address, struct gp_error *err)
{
    const char *close = strchr(text, ']');
    size_t length = close ? (size_t)(close - text - 1) : 0;

    if (!close)
        return refuse(text, "\"]\" is missing", err);
    if (length >= sizeof address->host)
        return refuse(text, "that is no IPv6 address", err);
    memcpy(address->host, text + 1, length);
    if (!is_ipv6(address->host))
        return refuse(text, "that is no IPv6 address", err);
    if (close[1] != ':')
        return refuse(text, "the port is missing", err);
    if (parse_port(text, close + 2, address, err))
        return -1;
    snprintf(address->authority, sizeof address->authority, "[%.*s]:%s", (int)strcspn(address->host, "%"),
             address->host, address->port);
    return 0;
}

/* What getaddrinfo may be asked for; bytes above 0x7f are left to it. */
static bool is_name(const char *host, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)host[i];
        if (c <= 0x20 || c == 0x7f || strchr("\"#%/<>?@[\\]^`{|}", c))
            return false;
    }
    return length > 0;
}

static int parse_named(const char *text, struct gp_address *address, struct gp_error *err)
{
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);

    if (strstr(text, "://"))
        return refuse(text, "leave the scheme out", err);
    if (is_ipv6(text) || (colon && strchr(colon + 1, ':')))
        return refuse(text, "there is more than one colon (an IPv6 address goes in brackets)", err);
    if (!is_name(text, length))
        return refuse(text, length ? "that is no host name" : "the host is missing", err);
    if (length > LONGEST_NAME)
        return refuse(text, "the host name is too long", err);
    memcpy(address->host, text, length);
    if (parse_port(text, colon ? colon + 1 : "", address, err))
        return -1;
    snprintf(address->authority, sizeof address->authority, "%s:%s", address->host, address->port);
    return 0;
}

int gp_address_parse(const char *text, struct gp_address *address, struct gp_error *err)
{
    *address = (struct gp_address){0};
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text, text + 5, address, err);
    if (text[0] == '[')
        return parse_bracketed(text, address, err);
    return parse_named(text, address, err);
}

/* RFC 3986: what may stand in a path as it is. gRPC refuses a URI with anything else, and decodes %xx. */
static void encode(const char *path, char *text, size_t size)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@/";
    size_t used = 0;

    for (; *path && used + 4 <= size; path++)
        used += (size_t)snprintf(text + used, size - used, strchr(plain, *path) ? "%c" : "%%%02X",
                                 (unsigned char)*path);
    text[used] = '\0';
}

static void spell_ipv6(const struct sockaddr_in6 *in6, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "", zone[IF_NAMESIZE + 4] = "", name[IF_NAMESIZE];

    inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
    if (in6->sin6_scope_id && if_indextoname(in6->sin6_scope_id, name))
        snprintf(zone, sizeof zone, "%%25%s", name);
    snprintf(text, size, "ipv6:[%s%s]:%u", host, zone, ntohs(in6->sin6_port));
}

void gp_address_spell(const struct sockaddr *address, char *text, size_t size)
{
    char host[INET_ADDRSTRLEN] = "";

    if (address->sa_family == AF_UNIX) {
        size_t used = (size_t)snprintf(text, size, "unix:");
        encode(((const struct sockaddr_un *)address)->sun_path, text + used, size - used);
    } else if (address->sa_family == AF_INET6) {
        spell_ipv6((const struct sockaddr_in6 *)address, text, size);
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(text, size, "ipv4:%s:%u", host, ntohs(in->sin_port));
    }
}

void gp_address_host(const char *authority, char *host, size_t size)
{
    size_t length = authority[0] == '[' ? strcspn(++authority, "]") : strcspn(authority, ":");

    snprintf(host, size, "%.*s", (int)(length < size ? length : size - 1), authority);
}
