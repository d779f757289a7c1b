/* The thread that answers the parent over the control channel (proto/control.proto). */
#ifndef GP_SERVER_REPORTER_H
#define GP_SERVER_REPORTER_H

#include "process/report.h"

struct gp_error;
struct gp_server;

struct gp_reporter {
    struct gp_server *server;
    struct gp_report report;
};

/* Say Ready and answer from now on. When the parent asks for it or is gone, the process ends: at once and
 * without cleaning up, also with thousands of calls parked. */
int gp_reporter_start(struct gp_reporter *reporter, struct gp_server *server, int fd, struct gp_error *err);

#endif
