/* An environment as a file, in the form of /proc/PID/environ: for a command that is to have one which the
 * process that starts it does not take for its own. */
#ifndef GP_PROCESS_ENVIRONMENT_H
#define GP_PROCESS_ENVIRONMENT_H

/* "NAME=value\0NAME=value\0" read from the start of an open file, as a NULL-terminated array, which is one
 * piece for free(). NULL with errno. */
char **gp_environment_read(int fd);

#endif
