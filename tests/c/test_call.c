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

static void test_ok_needs_the_messages_of_the_kind(void)
{
    static const struct {
        enum gp_kind kind;
        bool parked;
        uint32_t messages, sent, received;
        bool complete;
    } cases[] = {
        {GP_KIND_UNARY, false, 0, 1, 1, true},          {GP_KIND_UNARY, false, 0, 1, 0, false},
        {GP_KIND_UNARY, false, 0, 1, 2, false},         {GP_KIND_CLIENT_STREAM, false, 3, 3, 1, true},
        {GP_KIND_CLIENT_STREAM, true, 0, 0, 0, false},  {GP_KIND_SERVER_STREAM, false, 5, 1, 2, true},
        {GP_KIND_SERVER_STREAM, false, 5, 1, 0, false}, {GP_KIND_SERVER_STREAM, true, 0, 1, 0, true},
        {GP_KIND_BIDI, false, 3, 3, 3, true},           {GP_KIND_BIDI, false, 3, 3, 2, false},
        {GP_KIND_BIDI, false, 3, 2, 2, false},          {GP_KIND_BIDI, true, 0, 0, 0, true},
        {GP_KIND_BIDI_FREE, false, 3, 3, 4, true},      {GP_KIND_BIDI_FREE, false, 3, 3, 2, false},
        {GP_KIND_BIDI_FREE, false, 0, 0, 0, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK(gp_call_is_complete(cases[i].kind, cases[i].parked, cases[i].messages, cases[i].sent,
                                  cases[i].received) == cases[i].complete);
}

static void test_ok_without_its_messages_has_the_class_of_its_kind(void)
{
    CHECK(gp_call_judge_ok(GP_KIND_UNARY, false, 0, 1, 1) == GP_CLASS_OK);
    CHECK(gp_call_judge_ok(GP_KIND_UNARY, false, 0, 1, 0) == GP_CLASS_UNIMPLEMENTED);
    CHECK(gp_call_judge_ok(GP_KIND_CLIENT_STREAM, true, 0, 0, 0) == GP_CLASS_UNIMPLEMENTED);
    CHECK(gp_call_judge_ok(GP_KIND_SERVER_STREAM, false, 5, 1, 0) == GP_CLASS_UNKNOWN);
    CHECK(gp_call_judge_ok(GP_KIND_BIDI, false, 3, 3, 2) == GP_CLASS_UNKNOWN);
}

static void test_what_a_client_ends_as_ok(void)
{
    CHECK(gp_call_is_said(GP_KIND_CLIENT_STREAM, false, 0, true, 1));
    CHECK(!gp_call_is_said(GP_KIND_CLIENT_STREAM, false, 0, true, 0));
    CHECK(!gp_call_is_said(GP_KIND_CLIENT_STREAM, false, 0, false, 1));
    CHECK(!gp_call_is_said(GP_KIND_CLIENT_STREAM, false, 5, true, 5)); /* its response is owed */
    CHECK(!gp_call_is_said(GP_KIND_CLIENT_STREAM, true, 0, true, 1));
    CHECK(!gp_call_is_said(GP_KIND_BIDI_FREE, false, 0, true, 1));
}

static void test_draws_are_even_and_depend_on_all(void)
{
    enum { COUNT = 7, DRAWS = 70000 };
    uint32_t drawn[COUNT] = {0}, differ[3] = {0};

    for (uint32_t i = 0; i < DRAWS; i++) {
        uint32_t one = gp_call_draw(1, i % 10, i / 10, i % 3, COUNT);

        CHECK(one < COUNT && one == gp_call_draw(1, i % 10, i / 10, i % 3, COUNT));
        drawn[one]++;
        differ[0] += one != gp_call_draw(2, i % 10, i / 10, i % 3, COUNT);
        differ[1] += one != gp_call_draw(1, i % 10 + 10, i / 10, i % 3, COUNT);
        differ[2] += one != gp_call_draw(1, i % 10, i / 10, i % 3 + 3, COUNT);
    }
    for (int i = 0; i < COUNT; i++) /* 10,000 with a deviation of 93 */
        CHECK(drawn[i] > 9500 && drawn[i] < 10500);
    for (int i = 0; i < 3; i++) /* 6 in 7 */
        CHECK(differ[i] > DRAWS * 0.84 && differ[i] < DRAWS * 0.88);
    CHECK(gp_call_draw(9, 1, 2, 3, 1) == 0);
}

static void test_binary_metadata(void)
{
    CHECK(gp_metadata_is_binary("a-bin") && !gp_metadata_is_binary("-bin") && !gp_metadata_is_binary("a-bi"));
    CHECK(!gp_metadata_is_binary("a-bin-") && !gp_metadata_is_binary(""));
    CHECK(gp_metadata_value_bytes(&(struct gp_metadata){"a-bin", "\0\0", 2}) == 2);
    CHECK(gp_metadata_value_bytes(&(struct gp_metadata){"a", "xyz", 0}) == 3);
}

int main(void)
{
    test_what_a_client_ends_as_ok();
    test_draws_are_even_and_depend_on_all();
    test_binary_metadata();
    test_ok_without_its_messages_has_the_class_of_its_kind();
    test_ok_needs_the_messages_of_the_kind();
    classes_have_names();
    return 0;
}
