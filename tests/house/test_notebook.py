"""The notebook of the guide runs in a real kernel, whose event loop runs while a cell does."""

from pathlib import Path

import nbclient
import nbformat

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "guide" / "notebook.ipynb"


def test_the_cells_of_the_notebook_run_in_a_kernel(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [cell.outputs[-1].data["text/plain"] for cell in notebook.cells if cell.cell_type == "code"]
    assert shown == ["1.0", "True"]
