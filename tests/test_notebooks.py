"""The notebooks: committed without outputs, and every cell runs, on a small size."""

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from grpcperf import experiments

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SMALL = {"SECONDS": "0.2", "REPEATS": "1"}
ARTICLES = [path for path in NOTEBOOKS if path.stem != "00_tour"]
REPORTS = (
    Path(__file__).parent / "data" / "reports.jsonl"
)  # of one quick run of everything; make test-all makes its own


def small(notebook: Any, values: dict[str, str]) -> Any:
    """With smaller numbers in the cell that is tagged as its parameters."""
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            for name, value in values.items():
                cell.source = re.sub(rf"^{name} = [^#\n]*", f"{name} = {value}  ", cell.source, flags=re.M)
    return notebook


def run(notebook: Any) -> Any:
    """Execute it in a kernel of this interpreter, whatever kernels are installed."""
    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-P", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        display_name="this one",
        language="python",
    )
    NotebookClient(notebook, km=manager, timeout=100, resources={"metadata": {"path": str(FOLDER)}}).execute()
    return notebook


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_committed_without_outputs(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert cell.cell_type != "code" or (cell.outputs == [] and cell.execution_count is None)


def outputs(notebook: Any, kind: str) -> list[str]:
    found = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output["data"][kind] for output in found if kind in output.get("data", {})]


def test_the_tour_runs() -> None:
    notebook = run(small(nbformat.read(FOLDER / "00_tour.ipynb", as_version=4), SMALL))
    tables = outputs(notebook, "text/html")
    assert len(outputs(notebook, "image/png")) == 4
    assert any("calls/s" in text for text in tables)
    assert any("heap_alloc" in text for text in tables)
    assert any("throughput_rps" in text for text in tables)
    streams = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in streams if output.get("name") == "stderr" and "rror" in output["text"]]


INTERRUPTED = [
    "import grpcperf as gp, os, signal, threading\nserver = gp.Server()",
    """threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    gp.load(server, duration=60, warmup=0)
except gp.Interrupted as stopped:
    result = stopped.result""",
    """print(result.calls > 0, [one.code for one in result.findings if one.code == 'interrupted'])
server.close()""",
]


def test_every_experiment_is_in_one_notebook() -> None:
    asked = [
        name
        for path in ARTICLES
        for cell in nbformat.read(path, as_version=4).cells
        for name in re.findall(r'^answer\("([a-z-]+)"\)', cell.source, re.M)
    ]
    assert sorted(asked) == sorted(experiments.NAMES)


def run_on_reports(path: Path, reports: Path) -> None:
    """On reports that were kept: each is shown as a table and as figures, with its verdict."""
    notebook = run(small(nbformat.read(path, as_version=4), {"RECORDED": repr(str(reports))}))
    asked = [cell for cell in notebook.cells if cell.source.startswith("answer(")]
    for cell in asked:
        kinds = [kind for output in cell.outputs for kind in output.get("data", {})]
        assert "image/png" in kinds, cell.source
        assert "text/html" in kinds
        assert "text/markdown" in kinds


@pytest.mark.parametrize("path", ARTICLES, ids=lambda path: path.stem)
def test_articles_run_on_what_was_measured(path: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports.jsonl"
    reports.write_bytes(REPORTS.read_bytes())
    run_on_reports(path, reports)
    assert reports.read_bytes() == REPORTS.read_bytes()  # nothing was missing, and measured here


def test_an_interrupted_cell_has_what_was_measured() -> None:
    """The kernel's interrupt button, in the middle of a load."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in INTERRUPTED]
    told = run(notebook).cells[-1].outputs[0]["text"]
    assert told == "True ['interrupted']\n"
