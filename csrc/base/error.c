/* error: the filling of struct gp_error and nothing else. No allocation, and safe to call with parts of the
 * same error as arguments, so that a caller can wrap what it was told. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* By way of a buffer of its own: the arguments may point into err->message. */
static size_t format_message(struct gp_error *err, const char *format, va_list arguments)
{
    char text[sizeof err->message];
    int wanted = vsnprintf(text, sizeof text, format, arguments);
    size_t length = wanted < 0 ? 0 : (size_t)wanted;

    if (length >= sizeof text)
        length = sizeof text - 1;
    memcpy(err->message, text, length);
    err->message[length] = '\0';
    return length;
}

/* The reason is worth more than the end of a long text: make room for it. */
static void append_reason(struct gp_error *err, size_t length, int os_errno)
{
    char buffer[128];
    const char *reason = strerror_r(os_errno, buffer, sizeof buffer);
    size_t needed = strlen(reason) + strlen(": ");
    size_t room = sizeof err->message - 1;

    if (length > room - needed)
        length = room - needed;
    snprintf(err->message + length, sizeof err->message - length, ": %s", reason);
}

int gp_error_set(struct gp_error *err, enum gp_error_code code, const char *format, ...)
{
    va_list arguments;

    if (!err)
        return -1;
    va_start(arguments, format);
    format_message(err, format, arguments);
    va_end(arguments);
    err->code = code;
    err->os_errno = 0;
    return -1;
}

int gp_error_errno(struct gp_error *err, const char *format, ...)
{
    int saved = errno;
    va_list arguments;

    if (!err)
        return -1;
    va_start(arguments, format);
    size_t length = format_message(err, format, arguments);
    va_end(arguments);
    append_reason(err, length, saved);
    err->code = GP_ERROR_ENGINE;
    err->os_errno = saved;
    return -1;
}
