/* What the files of the extension share: the module's state, and conversions between C and Python. Only this
 * folder includes Python.h. */
#ifndef GP_PYTHON_ENGINE_H
#define GP_PYTHON_ENGINE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/wait.h"
#include "client/client.h"
#include "net/tls.h"

struct gp_histogram;
struct gp_run_result;
struct child_object;

struct engine_state {
    PyObject *failure;             /* EngineFailure */
    pid_t owner;                   /* the process that first used threads or children; 0 while none did */
    struct child_object *children; /* all live ones, for abandon_after_fork */
};

struct engine_state *engine_state(PyObject *module);

/* The state of the module that defines the type of `self`. */
struct engine_state *engine_state_of(PyObject *self);

/* Raise EngineFailure(code, message); returns NULL. */
PyObject *engine_raise(const struct engine_state *state, const struct gp_error *err);

/* Called before threads or children are made. -1 with EngineFailure raised in a process that was forked from
 * one that had them: locks and threads do not survive a fork. */
int engine_claim(struct engine_state *state);

/* -1 with EngineFailure raised when `owner`, the maker of an object, is another process than this one. */
int engine_check_owner(const struct engine_state *state, pid_t owner);

/* A wait that gives up when a signal handler raised: `saved` is where the thread state of the released GIL is
 * kept. */
struct engine_wait {
    struct gp_wait wait;
    PyThreadState *saved;
};

void engine_wait_begin(struct engine_wait *wait, double timeout_s); /* releases the GIL */
void engine_wait_end(struct engine_wait *wait);                     /* takes it back */

/* O& converters for PyArg_Parse: each raises what is wrong with the number. */
int convert_u32(PyObject *number, void *u32);
int convert_u64(PyObject *number, void *u64);
int convert_seconds(PyObject *number, void *ns_u64);

PyObject *convert_need(PyObject *dict, const char *key); /* what must be there; borrowed, NULL: KeyError */
int convert_set(PyObject *dict, const char *key, PyObject *value); /* takes the value over, also NULL: -1 */
/* O& converter of the Tls of _engine.pyi, or None. The texts in it are those of the dict, which must live
 * until they have been used. Set it to zero first. */
struct tls_opts {
    bool given;
    struct gp_tls_opts opts;
};

int convert_tls(PyObject *dict, void *tls_opts);

/* Python's description of a client and its calls as the client room wants it. The pointers in `opts` lead
 * into the objects given, so those must live until the opts have been used. */
struct call_opts {
    struct gp_client_opts opts;
    struct tls_opts tls;
    struct gp_payload *pool;
    struct gp_metadata *metadata;
    struct gp_client_arg *args;
};

/* `client` and `request` are the dicts of those names in _engine.pyi. */
int call_opts_init(struct call_opts *calls, PyObject *client, PyObject *request);
void call_opts_fini(struct call_opts *calls);

PyObject *histogram_to_python(const struct gp_histogram *histogram);
PyObject *classes_to_python(const uint64_t classes[GP_CLASS_COUNT]);
PyObject *result_to_python(const struct gp_run_result *result); /* result.c */

/* Seconds as Python tells them. */
static inline double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* The types, made and added to the module by its exec slot. */
extern PyType_Spec allocations_spec, child_spec, dispatch_spec, run_spec, park_spec;

void child_abandon_all(struct engine_state *state);

/* Functions of the module that have a file of their own. */
PyObject *handshakes(PyObject *module, PyObject *args, PyObject *keywords);
PyObject *check_tls(PyObject *module, PyObject *args, PyObject *keywords);
PyObject *self_signed(PyObject *module, PyObject *args, PyObject *keywords);

#endif
