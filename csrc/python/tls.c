/* TLS between C and Python: the options of a client, and certificates made on the spot. */
#include "python/engine.h"

#include <string.h>

#include "net/certificate.h"
#include "net/tls.h"

#define NAMES_MAX 32

/* A text of the dict that may be None. Borrowed from it. */
static int parse_text(PyObject *dict, const char *key, const char **text)
{
    PyObject *value = PyDict_GetItemString(dict, key);
    if (!value) {
        PyErr_Format(PyExc_KeyError, "%s is missing", key);
        return -1;
    }
    *text = value == Py_None ? NULL : PyUnicode_AsUTF8(value);
    return *text || value == Py_None ? 0 : -1;
}

static int parse_version(PyObject *dict, const char *key, enum gp_tls_version *version)
{
    const char *text;
    if (parse_text(dict, key, &text))
        return -1;
    if (!text)
        *version = GP_TLS_ANY;
    else if (strcmp(text, "1.2") == 0)
        *version = GP_TLS_1_2;
    else if (strcmp(text, "1.3") == 0)
        *version = GP_TLS_1_3;
    else
        PyErr_Format(PyExc_ValueError, "no such version of TLS: %s", text);
    return PyErr_Occurred() ? -1 : 0;
}

static int parse_flag(PyObject *dict, const char *key, bool *flag)
{
    PyObject *value = PyDict_GetItemString(dict, key);
    int truth = value ? PyObject_IsTrue(value) : -1;
    if (!value)
        PyErr_Format(PyExc_KeyError, "%s is missing", key);
    *flag = truth > 0;
    return truth < 0 ? -1 : 0;
}

int convert_tls(PyObject *object, void *tls_opts)
{
    struct tls_opts *tls = tls_opts;
    struct gp_tls_opts *out = &tls->opts;
    tls->given = object != Py_None;
    if (!tls->given)
        return 1;
    if (!PyDict_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "tls is a dict or None");
        return 0;
    }
    return !parse_text(object, "ca", &out->ca) && !parse_text(object, "cert", &out->cert) &&
           !parse_text(object, "key", &out->key) && !parse_text(object, "server_name", &out->server_name) &&
           !parse_version(object, "min_version", &out->min_version) &&
           !parse_version(object, "max_version", &out->max_version) &&
           !parse_flag(object, "verify", &out->verify) && !parse_flag(object, "resume", &out->resume);
}

PyObject *check_tls(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"tls", NULL};
    struct tls_opts tls = {0};
    struct gp_error err = {0};
    struct gp_tls *made;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&:check_tls", names, convert_tls, &tls))
        return NULL;
    if (!tls.given) {
        PyErr_SetString(PyExc_TypeError, "tls is a dict");
        return NULL;
    }
    if (gp_tls_create(&made, &tls.opts, "localhost", &err))
        return engine_raise(engine_state(module), &err);
    gp_tls_destroy(made);
    Py_RETURN_NONE;
}

/* An authority of no other use, its key a quick one, and a certificate that it has signed. */
static int make_pair(struct gp_certificate *authority, struct gp_certificate *made,
                     struct gp_certificate_opts *opts, struct gp_error *err)
{
    const struct gp_certificate_opts root = {.from_s = opts->from_s, .to_s = opts->to_s, .authority = true};
    if (gp_certificate_make(authority, &root, err))
        return -1;
    opts->signer = authority;
    return gp_certificate_make(made, opts, err);
}

static PyObject *pair_to_python(struct engine_state *state, struct gp_certificate_opts *opts)
{
    struct gp_certificate authority = {0}, made = {0};
    struct gp_error err = {0};
    PyObject *pair = NULL;
    if (make_pair(&authority, &made, opts, &err))
        engine_raise(state, &err);
    else
        pair = Py_BuildValue("{ssssss}", "ca", authority.cert, "cert", made.cert, "key", made.key);
    gp_certificate_fini(&authority);
    gp_certificate_fini(&made);
    return pair;
}

/* For "O&". */
static int convert_key(PyObject *object, void *key)
{
    enum gp_certificate_key *out = key;
    const char *text = PyUnicode_AsUTF8(object);
    if (text && strcmp(text, "p256") == 0)
        *out = GP_CERTIFICATE_P256;
    else if (text && strcmp(text, "rsa2048") == 0)
        *out = GP_CERTIFICATE_RSA_2048;
    else if (text)
        PyErr_Format(PyExc_ValueError, "no such sort of key: %s", text);
    return !PyErr_Occurred();
}

PyObject *self_signed(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"names", "valid_from", "valid_to", "key", NULL};
    const char *texts[NAMES_MAX];
    long long from_s, to_s;
    enum gp_certificate_key key = GP_CERTIFICATE_P256;
    PyObject *sequence, *pair = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OLL|O&:self_signed", names, &sequence, &from_s, &to_s,
                                     convert_key, &key))
        return NULL;
    PyObject *fast = PySequence_Fast(sequence, "names is a sequence of str");
    if (!fast)
        return NULL;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
    if (count < 1 || count > NAMES_MAX)
        PyErr_Format(PyExc_ValueError, "a certificate is for 1 to %d names", NAMES_MAX);
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < count; i++)
        texts[i] = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(fast, i));
    if (!PyErr_Occurred()) {
        struct gp_certificate_opts opts = {
            .names = texts, .name_count = (size_t)count, .from_s = from_s, .to_s = to_s, .key = key};
        pair = pair_to_python(engine_state(module), &opts);
    }
    Py_DECREF(fast);
    return pair;
}
