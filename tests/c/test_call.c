/* The names of how calls end. */
#include "base/call.h"

#include <string.h>

#include "check.h"

static void classes_have_names(void)
{
    CHECK(strcmp(gp_class_name(GP_CLASS_OK), "OK") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)3), "INVALID_ARGUMENT") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)5), "NOT_FOUND") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)6), "ALREADY_EXISTS") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)7), "PERMISSION_DENIED") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)9), "FAILED_PRECONDITION") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)10), "ABORTED") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)11), "OUT_OF_RANGE") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_UNAVAILABLE), "UNAVAILABLE") == 0);
    CHECK(strcmp(gp_class_name((enum gp_class)15), "DATA_LOSS") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_UNAUTHENTICATED), "UNAUTHENTICATED") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_IN_FLIGHT_AT_END), "in_flight_at_end") == 0);
    CHECK(strcmp(gp_class_name(GP_CLASS_TRANSPORT), "transport") == 0);
    for (unsigned class = 0; class < GP_CLASS_COUNT; class ++)
        CHECK(gp_class_name((enum gp_class) class)[0] != 0);
}

int main(void)
{
    classes_have_names();
    return 0;
}
