/* Tests of base/error: codes, text, the reason kept, no way to overrun the buffer. */
#include "base/error.h"

#include <errno.h>
#include <string.h>

#include "check.h"

static void set_fills_everything(void)
{
    struct gp_error err;

    memset(&err, 0xaa, sizeof err);
    CHECK(gp_error_set(&err, GP_ERROR_CONNECT, "%s:%d refused", "host", 80) == -1);
    CHECK(err.code == GP_ERROR_CONNECT);
    CHECK(err.os_errno == 0);
    CHECK(strcmp(err.message, "host:80 refused") == 0);
}

static void errno_is_named(void)
{
    struct gp_error err = {0};

    errno = ENOENT;
    CHECK(gp_error_errno(&err, "opening %s", "/no/such") == -1);
    CHECK(err.code == GP_ERROR_ENGINE);
    CHECK(err.os_errno == ENOENT);
    CHECK(strcmp(err.message, "opening /no/such: No such file or directory") == 0);
}

static void null_is_allowed(void)
{
    errno = EPERM;
    CHECK(gp_error_set(NULL, GP_ERROR_DIED, "%d", 1) == -1);
    CHECK(gp_error_errno(NULL, "%d", 1) == -1);
}

static void long_text_is_cut_but_not_its_reason(void)
{
    struct gp_error err;
    char text[3000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    gp_error_set(&err, GP_ERROR_ENGINE, "%s", text);
    CHECK(strlen(err.message) == sizeof err.message - 1);
    CHECK(strspn(err.message, "x") == sizeof err.message - 1);

    errno = EMFILE;
    gp_error_errno(&err, "%s", text);
    const char *reason = ": Too many open files";
    CHECK(strlen(err.message) == sizeof err.message - 1);
    CHECK(strcmp(err.message + sizeof err.message - 1 - strlen(reason), reason) == 0);
    CHECK(err.message[sizeof err.message - 2 - strlen(reason)] == 'x');
}

static void an_error_can_be_wrapped_in_itself(void)
{
    struct gp_error err;

    gp_error_set(&err, GP_ERROR_ENGINE, "inner");
    gp_error_set(&err, GP_ERROR_CONNECT, "outer: %s", err.message);
    CHECK(strcmp(err.message, "outer: inner") == 0);
    CHECK(err.code == GP_ERROR_CONNECT);

    errno = EPIPE;
    gp_error_errno(&err, "[%s]", err.message);
    CHECK(strcmp(err.message, "[outer: inner]: Broken pipe") == 0);
}

static void an_unknown_errno_still_gives_text(void)
{
    struct gp_error err;

    errno = 98765;
    gp_error_errno(&err, "call");
    CHECK(err.os_errno == 98765);
    CHECK(strstr(err.message, "98765"));
}

int main(void)
{
    set_fills_everything();
    errno_is_named();
    null_is_allowed();
    long_text_is_cut_but_not_its_reason();
    an_error_can_be_wrapped_in_itself();
    an_unknown_errno_still_gives_text();
    return 0;
}
