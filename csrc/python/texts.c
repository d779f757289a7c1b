/* texts: see the header. */
#include "python/texts.h"

const char **texts_array(PyObject *fast)
{
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
    const char **array = PyMem_Calloc((size_t)count + 1, sizeof *array);
    if (!array)
        return (void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        array[i] = PyBytes_AsString(PySequence_Fast_GET_ITEM(fast, i));
        if (!array[i]) {
            PyMem_Free(array);
            return NULL;
        }
    }
    return array;
}

PyObject *texts_encode(PyObject *items)
{
    PyObject *fast = PySequence_Fast(items, "argv is a sequence of str");
    PyObject *list = fast ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; list && i < PySequence_Fast_GET_SIZE(fast); i++) {
        PyObject *bytes = NULL;
        if (!PyUnicode_FSConverter(PySequence_Fast_GET_ITEM(fast, i), &bytes) || PyList_Append(list, bytes))
            Py_CLEAR(list);
        Py_XDECREF(bytes);
    }
    Py_XDECREF(fast);
    return list;
}

PyObject *texts_encode_env(PyObject *mapping)
{
    PyObject *items = PyMapping_Items(mapping);
    PyObject *list = items ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(items); i++) {
        PyObject *key, *value;
        PyObject *text = NULL;
        if (PyArg_ParseTuple(PyList_GET_ITEM(items, i), "UU", &key, &value))
            text = PyUnicode_FromFormat("%U=%U", key, value);
        if (!text || PyList_Append(list, text))
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    Py_XDECREF(items);
    PyObject *encoded = list ? texts_encode(list) : NULL;
    Py_XDECREF(list);
    return encoded;
}
