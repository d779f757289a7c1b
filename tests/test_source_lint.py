"""Rules of the source that can be executed. Each is a function from text to a list of what is wrong, applied
to the tree and, so that it is known to be able to fail, to small bad examples."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES = 400
MOST_TEST_LINES = 650  # a test file is a list of cases, each read by itself

# Longer files that were looked at and are better whole, each with the reason.
LONGER: dict[str, int] = {}

# A room may include itself and the rooms named here; ARCHITECTURE.md draws the same arrows.
ARROWS: dict[str, set[str]] = {
    "base": set(),
    "wire": {"base"},
    "net": {"base"},
    "process": {"preload", "base"},  # of preload its file's format alone
    "client": {"wire", "net", "base"},
    "load": {"client", "base"},
    "codec": {"base"},
    "python": {"load", "process", "client", "net", "codec", "base"},
    "server": {"wire", "net", "process", "base"},
    "mirror": {"wire", "net", "process", "base"},
    "launcher": {"process", "base"},
    "relay": {"wire", "net", "process", "base"},
    "preload": set(),  # loaded into foreign processes: nothing of ours may come along
}

# From below to above: what a module imports when it is imported lies in its room or further down.
# ARCHITECTURE.md draws the same rooms; a folder is a name of its own.
PYTHON_ROOMS: dict[str, str] = {
    "shared": "_engine errors engine units values tls cache late machine threads histogram memstats stats",
    "targets": "targets",
    "measure": "spec payloads metadata schedule descriptors load hold parked memory sampler result "
    "memory_cost progress dispatch",
    "judge": "findings diagnose checks calibrate checkup checkup_looks environment",
    "compose": "sweep store results identity summary comparison search merge leaks",
    "look": "remarks views tables plot figures labels report sweep_page",
    "answer": "experiments codecs goclient",
    "use": "cli cli_options cli_compose cli_experiment arguments interrupts pytest_plugin pytest_records "
    "demo demo_page __init__ __main__",
}
PLACES = {name: at for at, names in enumerate(PYTHON_ROOMS.values()) for name in names.split()}

# The engine never prints, exits or touches signals: it lives in somebody's notebook.
PRINTING = {"printf", "fprintf", "dprintf", "vprintf", "vfprintf", "puts", "fputs", "putc", "fputc",
            "putchar", "perror", "err", "errx", "warn", "warnx"}  # fmt: skip
FORBIDDEN = PRINTING | {"exit", "_exit", "_Exit", "quick_exit", "abort", "signal", "sigaction"}
ALLOWED_CALLS = {
    "csrc/server/main.c": FORBIDDEN,  # an executable's own file
    "csrc/mirror/main.c": FORBIDDEN,
    "csrc/relay/main.c": FORBIDDEN,
    "csrc/launcher/main.c": FORBIDDEN,
    "csrc/codec/main.c": FORBIDDEN,
    "csrc/launcher/command.c": {"_exit"},  # a forked child that could not become the command
    "csrc/server/reporter.c": {"_exit"},  # the server ends where its parent's end is noticed
}


def tracked() -> list[str]:
    """The project's files: git's where there is git, all that is not built otherwise (a source archive)."""
    if (ROOT / ".git").exists():
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = [name for name in done.stdout.split("\0") if name]
    else:
        found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        built = {".venv", "build", "__pycache__", "dist"}
        names = [str(path) for path in found if not built & set(path.parts)]
    return [name for name in names if (ROOT / name).is_file()]


TRACKED = tracked()
C_FILES = [name for name in TRACKED if name.endswith((".c", ".h", ".cc"))]
ENGINE = [name for name in C_FILES if name.startswith("csrc/")]
SOURCES = C_FILES + [name for name in TRACKED if name.endswith(".py")]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


COMMENT_OR_STRING = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def without_comments(text: str, *, keep_strings: bool = False) -> str:
    """C with its comments and strings blanked out, line numbers unchanged."""

    def replace(match: re.Match[str]) -> str:
        return match[0] if keep_strings and match[0][0] in "\"'" else blank(match)

    return COMMENT_OR_STRING.sub(replace, text)


def line_of(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


def includes(text: str) -> list[str]:
    """What is included, with its quotes or angle brackets."""
    code = without_comments(text, keep_strings=True)
    return re.findall(r"^[ \t]*#[ \t]*include[ \t]*([\"<][^\">]*[\">])", code, re.MULTILINE)


def forbidden_calls(name: str, text: str) -> list[str]:
    code = without_comments(text)
    allowed = ALLOWED_CALLS.get(name, set())
    calls = (m for m in re.finditer(r"(?<![\w.>])(\w+)\s*\(", code) if m[1] in FORBIDDEN - allowed)
    return [f"{name}:{line_of(code, m)}: {m[1]}() has no place in the engine" for m in calls]


def misplaced_headers(name: str, text: str) -> list[str]:
    problems = []
    for header in includes(text):
        if header[1:] in ("Python.h>", 'Python.h"') and not name.startswith("csrc/python/"):
            problems.append(f"{name}: {header} belongs in csrc/python alone")
        if header.startswith(("<grpc/", '"grpc/', "<grpc++", "<grpcpp")) and not name.startswith(
            ("csrc/client/core", "csrc/server/")
        ):
            problems.append(f"{name}: {header} belongs in csrc/client/core*.[ch] and csrc/server alone")
    return problems


def wrong_arrows(name: str, text: str) -> list[str]:
    room = name.split("/")[1]
    if room not in ARROWS:
        return [f"{name}: the room {room} has no place among the arrows yet"]
    problems = []
    for header in includes(text):
        if header[0] == "<" or header.endswith('.pb-c.h"'):
            continue
        other = header[1:].split("/")[0] if "/" in header else None
        if other is None:
            problems.append(f"{name}: {header} does not name its room")
        elif other != room and other not in ARROWS[room]:
            problems.append(f"{name}: {header} is against the arrows: {room} includes {sorted(ARROWS[room])}")
    return problems


def imported(text: str) -> list[str]:
    """The package's own modules that this one imports as it is imported itself, by their first name."""
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module == "grpcperf":
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grpcperf."):
            found.append(str(node.module).split(".")[1])
    return found


def imports_upwards(name: str, text: str) -> list[str]:
    own = name.removeprefix("grpcperf/").removesuffix(".py").split("/")[0]
    if own not in PLACES:
        return [f"{name}: {own} has no place among the rooms yet"]
    above = [other for other in imported(text) if PLACES.get(other, len(PLACES)) > PLACES[own]]
    return [f"{name}: imports {other}, which is in a room above" for other in above]


def missing_purpose(name: str, text: str) -> list[str]:
    """A C file begins with a comment that says what may live there, a Python file with a docstring."""
    if name.endswith(".py"):
        purpose = ast.get_docstring(ast.parse(text)) or ""
    else:
        begin = re.match(r"/\*(.*?)\*/", text, re.DOTALL)
        purpose = begin[1] if begin else ""
    if len(purpose.split()) < 3:
        return [f"{name}: does not begin by saying what may live there"]
    return [f"{name}: is still a stub"] if re.search(r"\bstub: ", purpose) else []


def too_long(name: str, text: str) -> list[str]:
    lines = len(text.splitlines())
    most = LONGER.get(name, MOST_TEST_LINES if name.startswith("tests/") else MOST_LINES)
    return [f"{name}: {lines} lines, above {most}"] if lines > most else []


def too_long_without_leave(name: str) -> bool:
    return len(text_of(name).splitlines()) > MOST_LINES


def c_tests_astray(build: str, names: Iterable[str]) -> list[str]:
    """Units listed in tests/c/meson.build and test files are the same; meson overlooks a missing one."""
    table = re.search(r"c_tests = \{(.*?)^\}", build, re.DOTALL | re.MULTILINE)
    listed = set(re.findall(r"^\s*'(\w+)':", table[1], re.MULTILINE)) if table else set()
    there = {m[1] for name in names if (m := re.fullmatch(r"tests/c/test_(\w+)\.c", name))}
    missing = [f"tests/c/test_{unit}.c is missing: meson.build lists it" for unit in sorted(listed - there)]
    return missing + [f"tests/c/test_{unit}.c is not in meson.build" for unit in sorted(there - listed)]


def not_built(folder: str, build: str, names: Iterable[str], endings: tuple[str, ...]) -> list[str]:
    """Files of a folder that its meson.build does not name: they would never be compiled or shipped."""
    listed = set(re.findall(r"'([^'\n]+)'", re.sub(r"#[^\n]*", "", build)))
    inside = [name.removeprefix(folder + "/") for name in names if name.startswith(folder + "/")]
    return [
        f"{folder}/{name} is not in {folder}/meson.build"
        for name in inside
        if name.endswith(endings) and name not in listed
    ]


# In pieces, for this file is looked at too.
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:work|root|home/\w+)" + r"(?![\w-])")
REGISTRIES = re.compile(
    r"index-" + r"url|trusted-" + r"host|pythonhosted" + r"\.org|proxy\.golang" + r"\.org|registry\.npmjs"
    r"|GOPROXY=" + r"http|\bartifactory" + r"\b|https?://(?!localhost\b)[A-Za-z0-9-]+" + r"(?=[:/\"'\s])"
)


def machine_traces(name: str, text: str) -> list[str]:
    """Paths of the machine it was written on, and where that machine gets packages."""
    return [
        f"{name}:{line_of(text, match)}: {match[0]!r} is true on one machine only"
        for pattern in (MACHINE_PATHS, REGISTRIES)
        for match in pattern.finditer(text)
    ]


def collect(rule: Callable[[str, str], list[str]], names: Iterable[str]) -> list[str]:
    return [problem for name in names for problem in rule(name, text_of(name))]


def test_tree_is_seen() -> None:
    assert len(ENGINE) > 30
    assert "csrc/base/histogram.c" in ENGINE
    assert "grpcperf/meson.build" in TRACKED


@pytest.mark.parametrize("rule", [forbidden_calls, misplaced_headers, wrong_arrows])
def test_engine_keeps_the_rules(rule: Callable[[str, str], list[str]]) -> None:
    assert collect(rule, ENGINE) == []


def test_python_imports_run_downwards() -> None:
    modules = [name for name in TRACKED if name.startswith("grpcperf/") and name.endswith(".py")]
    assert collect(imports_upwards, modules) == []
    names = {name.split("/")[1].removesuffix(".py") for name in modules}
    assert PLACES.keys() - names == {"_engine"}  # none that has gone


def test_files_say_what_may_live_there() -> None:
    assert collect(missing_purpose, SOURCES) == []


def test_files_are_of_a_readable_length() -> None:
    assert collect(too_long, SOURCES) == []
    needless = [name for name in LONGER if name not in SOURCES or not too_long_without_leave(name)]
    assert needless == []


def test_each_c_unit_listed_has_its_test() -> None:
    assert c_tests_astray(text_of("tests/c/meson.build"), TRACKED) == []


def test_each_python_file_is_shipped() -> None:
    build = text_of("grpcperf/meson.build")
    assert not_built("grpcperf", build, TRACKED, (".py", ".pyi", "py.typed", ".j2")) == []


def test_each_c_file_is_compiled() -> None:
    rooms = sorted({name.split("/")[1] for name in ENGINE})
    for room in rooms:
        build = text_of(f"csrc/{room}/meson.build")
        assert not_built(f"csrc/{room}", build, TRACKED, (".c", ".cc")) == []


def test_nothing_tells_of_one_machine() -> None:
    binary = (".png", ".ico", ".gz")
    texts = [name for name in TRACKED if not name.endswith(binary) and "/corpus/" not in name]  # fuzz inputs
    assert collect(machine_traces, texts) == []


def clang_format() -> str | None:
    """The one installed beside this interpreter first: its version is pinned."""
    beside = Path(sys.executable).with_name("clang-format")
    return str(beside) if beside.exists() else shutil.which("clang-format")


def misformatted(tool: str, paths: Iterable[Path]) -> str:
    style = f"--style=file:{ROOT / '.clang-format'}"
    done = subprocess.run(
        [tool, style, "--dry-run", "-Werror", *map(str, paths)], cwd=ROOT, capture_output=True, text=True
    )
    return done.stderr if done.returncode else ""


def test_c_is_formatted(tmp_path: Path) -> None:
    tool = clang_format()
    if tool is None:
        pytest.skip("clang-format is not installed; pyproject.toml names its version")
    bad = tmp_path / "bad.c"
    bad.write_text("int  f( void ){return 1;}\n")
    assert "bad.c" in misformatted(tool, [bad])
    assert misformatted(tool, [ROOT / name for name in C_FILES]) == ""


ENGINE_FILE = "csrc/load/run.c"


@pytest.mark.parametrize(
    "code",
    ['printf("x");', 'if (x) fprintf (stderr, "");', "exit(1);", "abort();", "x = signal(2, h);", "_exit(0);",
     "sigaction(2, &a, 0);", 'puts("")', 'perror("")', "/* a */ abort() /* b */"],
)  # fmt: skip
def test_forbidden_calls_are_found(code: str) -> None:
    assert len(forbidden_calls(ENGINE_FILE, f"\n{code}\n")) == 1
    assert forbidden_calls(ENGINE_FILE, f"\n{code}\n")[0].startswith(f"{ENGINE_FILE}:2: ")
    assert forbidden_calls("csrc/server/main.c", code) == []


@pytest.mark.parametrize(
    "code",
    ["snprintf(a, 1, b);", "__attribute__((format(printf, 1, 2)))", '"exit(1)"', "/* abort() */",
     "// abort()", "child->signal(1)", "gp_exit(1)", 'x = "\\"; abort(";', "assert(x);"],
)  # fmt: skip
def test_harmless_code_is_left_alone(code: str) -> None:
    assert forbidden_calls(ENGINE_FILE, code) == []


def test_allowance_is_no_more_than_it_says() -> None:
    assert forbidden_calls("csrc/server/reporter.c", "_exit(0);") == []
    assert len(forbidden_calls("csrc/server/reporter.c", "exit(0);")) == 1


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (ENGINE_FILE, "#include <Python.h>"),
        ("csrc/client/client.h", "#include <grpc/grpc.h>"),
        ("csrc/python/run.c", "  #  include <grpc/support/alloc.h>"),
        ("csrc/server/main.c", '#include "Python.h"'),
    ],
)
def test_misplaced_headers_are_found(name: str, line: str) -> None:
    assert len(misplaced_headers(name, f"/* x */\n{line}\n")) == 1


def test_headers_in_their_places_are_left_alone() -> None:
    assert misplaced_headers("csrc/python/run.c", "#include <Python.h>") == []
    assert misplaced_headers("csrc/client/core_call.c", "#include <grpc/grpc.h>") == []
    assert misplaced_headers("csrc/server/call.c", "#include <grpc/grpc.h>") == []
    assert misplaced_headers(ENGINE_FILE, "/* #include <Python.h> */") == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("csrc/base/clock.c", '#include "net/probe.h"'),
        ("csrc/client/pool.c", '#include "load/run.h"'),
        ("csrc/load/run.c", '#include "process/child.h"'),
        ("csrc/process/child.c", '#include "client/client.h"'),
        ("csrc/server/call.c", '#include "client/client.h"'),
        ("csrc/net/probe.c", '#include "wire/frame.h"'),
        ("csrc/net/probe.c", '#include "../load/run.h"'),
        ("csrc/net/probe.c", '#include "probe.h"'),
        ("csrc/cellar/x.c", ""),
    ],
)
def test_wrong_arrows_are_found(name: str, line: str) -> None:
    assert len(wrong_arrows(name, f"{line}\n")) == 1


def test_right_arrows_are_left_alone() -> None:
    for header in ("<stdio.h>", '"load/run.h"', '"client/client.h"', '"control.pb-c.h"'):
        assert wrong_arrows("csrc/load/run.c", f"#include {header}\n") == []


def test_imports_of_rooms_above_are_found() -> None:
    for line in ("from grpcperf.load import load", "from grpcperf import units, load"):
        assert len(imports_upwards("grpcperf/targets/link.py", f"{line}\n")) == 1
        assert imports_upwards("grpcperf/search.py", f"{line}\n") == []
        assert imports_upwards("grpcperf/targets/link.py", f"def f():\n    {line}\n") == []
    assert len(imports_upwards("grpcperf/new.py", "")) == 1


def test_arrows_have_no_circle() -> None:
    left = {room: set(others) for room, others in ARROWS.items()}
    while free := [room for room, others in left.items() if not others & left.keys()]:
        for room in free:
            del left[room]
    assert left == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.c", "#include <a.h>\n/* a.c: what may live here */\n"),
        ("a.h", "#ifndef A\n"),
        ("a.c", "/* a.c */\n"),
        ("a.c", "/* stub: to be written by its owner */\n"),
        ("a.c", ""),
        ("a.py", "import os\n"),
        ("a.py", "# what may live here, as a comment\n"),
    ],
)
def test_missing_purposes_are_found(name: str, text: str) -> None:
    assert len(missing_purpose(name, text)) == 1


def test_long_files_are_found() -> None:
    assert len(too_long(ENGINE_FILE, "x\n" * (MOST_LINES + 1))) == 1
    assert too_long(ENGINE_FILE, "x\n" * MOST_LINES) == []


def test_c_tests_astray_are_found() -> None:
    build = "x = {'a': 1}\nc_tests = {\n  'error': [base],\n  'clock': [base],\n}\nforeach unit : c_tests\n"
    both = ["tests/c/test_error.c", "tests/c/test_clock.c"]
    assert c_tests_astray(build, [*both, "tests/c/check.h"]) == []
    assert len(c_tests_astray(build, both[:1])) == 1
    assert len(c_tests_astray(build, [*both, "tests/c/test_new.c"])) == 1
    assert len(c_tests_astray("", both)) == 2


def test_files_left_out_of_a_build_are_found() -> None:
    build = "install_sources(['a.py', 'sub/b.py'])  # 'c.py'\n"
    assert not_built("grpcperf", build, ["grpcperf/a.py", "grpcperf/sub/b.py", "tests/c.py"], (".py",)) == []
    assert len(not_built("grpcperf", build, ["grpcperf/c.py", "grpcperf/sub/a.py"], (".py",))) == 2


@pytest.mark.parametrize(
    "line",
    ["cd /" + "work/main", 'open("/' + 'root/x")', "/home/" + "anna/grpcperf", "--index-" + "url x",
     "https:/" + "/files.pythonho" + "sted.org/x", "https:/" + "/packages:8080/", "GOPROXY=" + "https://go.example.com"],
)  # fmt: skip
def test_machine_traces_are_found(line: str) -> None:
    assert len(machine_traces("README.md", f"first\n{line}\n")) == 1


@pytest.mark.parametrize(
    "line",
    ["a work/root folder", "/tmp/x", "./work", "https://example.com/work", "http://localhost:8080/",
     "/workers", "parents[1] / root", "https://grpc.io/docs"],
)  # fmt: skip
def test_ordinary_text_is_left_alone(line: str) -> None:
    assert machine_traces("README.md", line) == []
