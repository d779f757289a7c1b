"""_engine.pyi against the engine itself: every name, member and argument is in both."""

import ast
import inspect
from importlib.resources import files

import pytest

from grpcperf import _engine

TREE = ast.parse(files("grpcperf").joinpath("_engine.pyi").read_text(encoding="utf-8"))
CLASSES = [node for node in TREE.body if isinstance(node, ast.ClassDef)]
FUNCTIONS = [node for node in TREE.body if isinstance(node, ast.FunctionDef)]
ALIASES = {target.id for node in TREE.body if isinstance(node, ast.Assign) for target in node.targets}


def public(names):
    return {name for name in names if not name.startswith("_")}


def members(node):
    names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    return public(names | {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)})


def test_the_module_has_the_names_of_its_stub_and_no_others():
    assert public(dir(_engine)) == {node.name for node in (*CLASSES, *FUNCTIONS)}
    assert {"Client", "Request", "Schedule", "Tls"} == ALIASES  # for readers of the stub, not at run time


@pytest.mark.parametrize("node", CLASSES, ids=lambda node: node.name)
def test_classes_have_the_members_of_their_stub(node):
    kind = getattr(_engine, node.name)
    inherited = public(dir(Exception)) if issubclass(kind, Exception) else set()
    assert public(dir(kind)) - inherited == members(node)
    is_final = any(isinstance(mark, ast.Name) and mark.id == "final" for mark in node.decorator_list)
    if is_final:
        with pytest.raises(TypeError):
            type("Sub", (kind,), {})


@pytest.mark.parametrize("node", FUNCTIONS, ids=lambda node: node.name)
def test_functions_are_functions_and_say_what_they_do(node):
    function = getattr(_engine, node.name)
    assert inspect.isbuiltin(function)
    assert function.__doc__


def keywords(node):
    return [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs) if argument.arg != "self"]


def optional(node):
    """The last arguments, those with a default."""
    return {argument.arg for argument in node.args.args[len(node.args.args) - len(node.args.defaults) :]}


def constructors():
    for node in CLASSES:
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                yield pytest.param(getattr(_engine, node.name), keywords(part), optional(part), id=node.name)


@pytest.mark.parametrize(("kind", "names", "optional"), list(constructors()))
def test_constructors_take_the_arguments_of_their_stub(kind, names, optional):
    """None of the values fits, so it fails in each case; an unknown name fails as such."""
    with pytest.raises(TypeError) as unknown:
        kind(**dict.fromkeys(names), nonsense=None)
    assert "nonsense" in str(unknown.value) or str(len(names)) in str(unknown.value)
    if not names:
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011
        kind(**dict.fromkeys(names))
    assert "keyword" not in str(caught.value)
    for name in set(names) - optional:
        with pytest.raises(TypeError):
            kind(**dict.fromkeys(set(names) - {name}))


def test_failures_carry_a_code_and_a_message():
    with pytest.raises(_engine.EngineFailure) as caught:
        _engine.probe("127.0.0.1:1", 1.0)
    code, message = caught.value.args
    assert code == "connect"
    assert "127.0.0.1:1" in message


def test_versions_are_texts():
    versions = _engine.versions()
    assert set(versions) == {"grpc", "protobuf_c", "compiler", "build"}
    assert all(isinstance(text, str) and text for text in versions.values())


@pytest.mark.parametrize(
    "node", [node for node in FUNCTIONS if node.name != "abandon_after_fork"], ids=lambda n: n.name
)
def test_nonsense_is_an_exception_not_a_crash(node):
    function = getattr(_engine, node.name)
    if node.name != "versions" and node.name != "fd_limit":
        with pytest.raises(TypeError):
            function()
    with pytest.raises((TypeError, ValueError, OverflowError, _engine.EngineFailure)):
        function(*[object()] * max(1, len(node.args.args)))


@pytest.mark.parametrize(
    ("files", "error"), [([b""] * 9, ValueError), (["text"], TypeError), (5, TypeError), ([None], TypeError)]
)
def test_a_child_is_handed_a_few_files_of_bytes(files, error):
    with pytest.raises(error):
        _engine.Child(["/bin/true"], {}, files)


@pytest.mark.parametrize(
    "changes", [{"ca": 5}, {"min_version": "1.1"}, {"verify": None, "ca": "nothing"}, {"key": "x"}]
)
def test_tls_that_makes_no_sense_is_an_exception_not_a_crash(changes):
    tls = dict.fromkeys(("ca", "cert", "key", "server_name", "min_version", "max_version"))
    good = tls | {"verify": False, "resume": False}
    _engine.check_tls(good)
    with pytest.raises((TypeError, ValueError, _engine.EngineFailure)):
        _engine.check_tls(good | changes)
    for name in good:
        with pytest.raises(KeyError):
            _engine.check_tls({key: value for key, value in good.items() if key != name})
