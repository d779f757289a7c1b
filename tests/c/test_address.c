/* Tests of net/address: the forms that are taken, those that are not, and gRPC's spelling. */
#include "net/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "base/error.h"
#include "check.h"

static void takes(const char *text, const char *host, const char *port, const char *authority)
{
    struct gp_address address;
    struct gp_error err = {0};

    CHECK(gp_address_parse(text, &address, &err) == 0);
    CHECK(strcmp(address.host, host) == 0);
    CHECK(strcmp(address.port, port) == 0);
    CHECK(strcmp(address.authority, authority) == 0);
    CHECK(address.is_unix == (port[0] == '\0'));
    CHECK(err.code == GP_ERROR_NONE);
}

static void the_three_forms_are_taken(void)
{
    takes("localhost:50051", "localhost", "50051", "localhost:50051");
    takes("127.0.0.1:1", "127.0.0.1", "1", "127.0.0.1:1");
    takes("a-b.example_c.com:65535", "a-b.example_c.com", "65535", "a-b.example_c.com:65535");
    takes("host:0080", "host", "80", "host:80");
    takes("[::1]:50051", "::1", "50051", "[::1]:50051");
    takes("[fe80::1%lo]:7", "fe80::1%lo", "7", "[fe80::1]:7"); /* a zone means nothing to the server */
    takes("unix:/tmp/a socket", "/tmp/a socket", "", "localhost");
    takes("unix:relative", "relative", "", "localhost");
    takes("unix:a:1", "a:1", "", "localhost");
}

static void refuses(const char *text, const char *why)
{
    struct gp_address address;
    struct gp_error err = {0};

    CHECK(gp_address_parse(text, &address, NULL) == -1);
    CHECK(gp_address_parse(text, &address, &err) == -1);
    CHECK(err.code == GP_ERROR_INVALID);
    CHECK(strstr(err.message, why));
    CHECK(strstr(err.message, "expected \"host:port\" with port 1..65535"));
    CHECK(!strchr(err.message, '\n'));
    if (strlen(text) < 100 && !strpbrk(text, "\n\t\r"))
        CHECK(strstr(err.message, text));
}

static void nonsense_is_refused_with_its_reason(void)
{
    char text[600];

    refuses("", "host is missing");
    refuses(":80", "host is missing");
    refuses("localhost", "port is missing");
    refuses("localhost:", "port is missing");
    refuses("localhost:http", "not a number");
    refuses("localhost:-1", "not a number");
    refuses("localhost:+80", "not a number");
    refuses("localhost: 80", "not a number");
    refuses("localhost:80 ", "not a number");
    refuses("localhost:0", "no such port");
    refuses("localhost:65536", "no such port");
    refuses("localhost:18446744073709551617", "no such port");
    refuses("::1:50051", "brackets");
    refuses("::1", "brackets");
    refuses("dns:localhost:80", "more than one colon");
    refuses("http://localhost:80", "scheme");
    refuses("dns:///localhost:80", "scheme");
    refuses("user@host:80", "no host name");
    refuses("a b:80", "no host name");
    refuses("a\nb:80", "no host name");
    refuses("host/path:80", "no host name");
    refuses("[::1]", "port is missing");
    refuses("[::1]50051", "port is missing");
    refuses("[::1]:", "port is missing");
    refuses("[::1:50051", "\"]\" is missing");
    refuses("[]:80", "no IPv6 address");
    refuses("[localhost]:80", "no IPv6 address");
    refuses("[127.0.0.1]:80", "no IPv6 address");
    refuses("unix:", "path is missing");

    memset(text, 'x', sizeof text);
    strcpy(text + 254, ":80");
    refuses(text, "too long");
    memset(text, 'x', sizeof text);
    text[0] = '[';
    strcpy(text + 500, "]:80");
    refuses(text, "no IPv6 address");
    memset(text, 'x', sizeof text);
    memcpy(text, "unix:", 5);
    text[5 + 108] = '\0';
    refuses(text, "at most 107 bytes");
    text[5 + 107] = '\0';
    struct gp_address address;
    CHECK(gp_address_parse(text, &address, NULL) == 0 && strlen(address.host) == 107);
}

static void spells(const void *address, const char *expected)
{
    char text[352];

    gp_address_spell(address, text, sizeof text);
    CHECK(strcmp(text, expected) == 0);
}

static void grpc_reads_what_is_spelled(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(50051)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(7)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    spells(&in, "ipv4:127.0.0.1:50051");
    in6.sin6_addr = in6addr_loopback;
    spells(&in6, "ipv6:[::1]:7");
    in6.sin6_scope_id = if_nametoindex("lo");
    if (in6.sin6_scope_id)
        spells(&in6, "ipv6:[::1%25lo]:7");
    strcpy(un.sun_path, "/tmp/x.sock");
    spells(&un, "unix:/tmp/x.sock");
    strcpy(un.sun_path, "a b%?#\xc3\xa9");
    spells(&un, "unix:a%20b%25%3F%23%C3%A9");
}

/* The longest path, every byte encoded, fits what struct gp_probe offers; less
 * room cuts and never overruns. */
static void spelling_keeps_to_its_room(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char text[352];

    memset(un.sun_path, ' ', 107);
    gp_address_spell((struct sockaddr *)&un, text, sizeof text);
    CHECK(strlen(text) == 5 + 3 * 107);
    gp_address_spell((struct sockaddr *)&un, text, 20);
    CHECK(strlen(text) < 20);
}

static void the_host_of_an_authority_is_told(void)
{
    static const char *const pairs[][2] = {
        {"localhost:80", "localhost"}, {"localhost", "localhost"}, {"127.0.0.1:1", "127.0.0.1"},
        {"[::1]:443", "::1"},          {"[::1]", "::1"},           {"", ""},
    };
    char host[256], small[4];

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        gp_address_host(pairs[i][0], host, sizeof host);
        CHECK(strcmp(host, pairs[i][1]) == 0);
    }
    gp_address_host("localhost:80", small, sizeof small);
    CHECK(strcmp(small, "loc") == 0);
}

int main(void)
{
    the_three_forms_are_taken();
    nonsense_is_refused_with_its_reason();
    grpc_reads_what_is_spelled();
    spelling_keeps_to_its_room();
    the_host_of_an_authority_is_told();
    return 0;
}
