/* What went wrong, in a fixed buffer owned by the caller: nothing is allocated on the way of an error.
 *
 * A function that can fail returns 0 or -1 and fills the gp_error it was given. Bugs are asserts
 * and failed calls are data; only the environment (no such host, no descriptors left, a dead
 * child) comes through here. */
#ifndef GP_BASE_ERROR_H
#define GP_BASE_ERROR_H

enum gp_error_code {
    GP_ERROR_NONE = 0,
    GP_ERROR_ENGINE,  /* the operating system or a library refused */
    GP_ERROR_CONNECT, /* the target cannot be reached, or is not what it should be */
    GP_ERROR_DIED,    /* a child process is gone */
    GP_ERROR_INVALID, /* what was asked makes no sense */
    GP_ERROR_STOPPED, /* the caller asked to stop while this was waiting */
};

struct gp_error {
    enum gp_error_code code;
    int os_errno; /* 0 when no system call was the cause */
    char message[1024];
};

/* Fill `err` (which may be NULL) and return -1, so that callers can `return gp_error_set(...)`. */
int gp_error_set(struct gp_error *err, enum gp_error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with code GP_ERROR_ENGINE and ": <strerror(errno)>" appended. Saves errno before anything else. */
int gp_error_errno(struct gp_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
