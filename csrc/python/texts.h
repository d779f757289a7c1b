/* Texts of Python as an operating system takes them: argument vectors and environments. */
#ifndef GP_PYTHON_TEXTS_H
#define GP_PYTHON_TEXTS_H

#include "python/engine.h"

/* Each str of `items` in the file system's encoding, as a list of bytes. */
PyObject *texts_encode(PyObject *items);

/* "NAME=value" of each entry of a mapping, likewise. */
PyObject *texts_encode_env(PyObject *mapping);

/* The bytes of a list or tuple as a NULL-terminated array that points into them; freed with PyMem_Free. */
const char **texts_array(PyObject *fast);

#endif
