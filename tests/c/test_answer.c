/* answer: what is learnt from one answer recognises those that differ in their stream and message alone. */
#include "wire/answer.h"

#include "wire_peer.h"

#define AFTER 16u /* bytes that have to follow */

static struct gp_bytes script;

static void add_answer(uint32_t stream_id, size_t message_bytes, const char *trailers)
{
    put_headers(&script, stream_id, 0, HEADERS_OK);
    put_message(&script, stream_id, 0, message_bytes);
    put_trailers(&script, stream_id, trailers);
}

static uint32_t recognise(const struct gp_answer *answer)
{
    uint32_t stream_id = gp_answer_recognise(answer, script.data, script.end);

    gp_bytes_clear(&script);
    return stream_id;
}

static void others_of_its_kind_are_recognised(void)
{
    struct gp_answer answer;

    add_answer(1, 100, TRAILERS_OK);
    CHECK(gp_answer_learn(&answer, script.data, script.end));
    CHECK(gp_answer_bytes(&answer) == script.end && answer.body_bytes == 100);
    gp_bytes_clear(&script);
    add_answer(0x12345677, 100, TRAILERS_OK);
    memset(script.data + answer.head_bytes, 'x', 100);
    CHECK(gp_bytes_append(&script, "0123456789abcdef", AFTER) == 0);
    CHECK(recognise(&answer) == 0x12345677);
    add_answer(3, 100, TRAILERS_OK); /* at the very end: read one by one */
    CHECK(recognise(&answer) == 0);
}

/* Every byte that is not of the stream's id or the message. */
static void any_other_byte_makes_a_difference(void)
{
    struct gp_answer answer;

    add_answer(5, 9, TRAILERS_OK);
    CHECK(gp_answer_learn(&answer, script.data, script.end));
    CHECK(gp_bytes_append(&script, "0123456789abcdef", AFTER) == 0);
    for (size_t i = 0; i < gp_answer_bytes(&answer); i++) {
        bool body = i >= answer.head_bytes && i < answer.head_bytes + answer.body_bytes;
        script.data[i] ^= 0x40;
        CHECK(gp_answer_recognise(&answer, script.data, script.end) == (body ? 5 : 0));
        script.data[i] ^= 0x40;
    }
    gp_bytes_clear(&script);
    add_answer(5, 10, TRAILERS_OK);
    add_answer(5, 9, "grpc-status=1");
    CHECK(recognise(&answer) == 0);
    add_answer(5, 9, "grpc-status=1");
    add_answer(5, 9, TRAILERS_OK);
    CHECK(recognise(&answer) == 0);
}

static bool learns(struct gp_answer *answer)
{
    bool learnt = gp_answer_learn(answer, script.data, script.end);

    gp_bytes_clear(&script);
    return learnt;
}

static void only_plain_answers_are_learnt(void)
{
    struct gp_answer answer;
    char fields[300] = HEADERS_OK "|a=";

    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 3);
    CHECK(!learns(&answer)); /* no trailers */
    put_headers(&script, 1, 0, HEADERS_OK);
    put_trailers(&script, 1, TRAILERS_OK);
    CHECK(!learns(&answer));
    put_headers(&script, 1, 0, HEADERS_OK);
    put_frame(&script, GP_FRAME_DATA, 0, 1, "\1\0\0\0\1a", 6); /* compressed */
    put_trailers(&script, 1, TRAILERS_OK);
    CHECK(!learns(&answer));
    put_headers(&script, 1, 0, HEADERS_OK);
    put_frame(&script, GP_FRAME_DATA, 0, 1, "\0\0\0\0\2a", 6); /* not whole */
    put_trailers(&script, 1, TRAILERS_OK);
    CHECK(!learns(&answer));
    put_headers(&script, 1, 0, HEADERS_OK);
    put_frame(&script, GP_FRAME_DATA, GP_FLAG_PADDED, 1, "\0\0\0\0\0\1a", 7);
    put_trailers(&script, 1, TRAILERS_OK);
    CHECK(!learns(&answer));
    memset(fields + strlen(fields), 'x', 120);
    put_headers(&script, 1, 0, fields); /* longer than is kept */
    put_message(&script, 1, 0, 3);
    put_trailers(&script, 1, TRAILERS_OK);
    CHECK(!learns(&answer));
    for (size_t size = 0; size < 60; size++) { /* and every part of one */
        add_answer(1, 3, TRAILERS_OK);
        CHECK(size < script.end && !gp_answer_learn(&answer, script.data, size));
        gp_bytes_clear(&script);
    }
}

int main(void)
{
    others_of_its_kind_are_recognised();
    any_other_byte_makes_a_difference();
    only_plain_answers_are_learnt();
    gp_bytes_fini(&script);
    return 0;
}
