"""A submission's text in the released notebook's frame.

Students copy cells, delete check cells, lose metadata in other editors, or edit it. nbgrader then stops, or stops the
whole batch. So what nbgrader sees is built anew: the submission's cells and their text, with ids, types, metadata and
locked text taken from the notebook that was released. Outputs, attachments and all other metadata are dropped: nothing
that a submission claims about itself survives.

Limit: text of a cell that is longer than MAX_SOURCE is cut, so that one cell cannot make a page too large to open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import nbformat, nbformat_minor

from autograder.checks import names
from autograder.grading.extract import exercise_line

MAX_SOURCE = 200_000  # characters
_TYPES = ("code", "markdown", "raw")
_Text = tuple[str, str, Mapping[str, Any]]  # type, text, the cell as submitted


def rebuild(template: NotebookNode, submitted: NotebookNode) -> NotebookNode:
    """The notebook to show and to score: frame of `template`, text of `submitted`. Neither is changed."""
    frame = {_grade_id(cell): cell for cell in template.cells if _grade_id(cell)}
    cells = _texts(submitted)
    owner = _owners(frame, cells)
    rebuilt = [
        _in_frame(frame[owner[i]], source) if i in owner else _plain(cell_type, source, i)
        for i, (cell_type, source, _) in enumerate(cells)
    ]
    notebook = _notebook(rebuilt, deepcopy(template.metadata))
    _insert_missing(notebook, template)
    return notebook


def _grade_id(cell: Mapping[str, Any]) -> str:
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, Mapping) else None
    name = nbgrader.get("grade_id") if isinstance(nbgrader, Mapping) else None
    return name if isinstance(name, str) else ""


def salvage(damaged: Any) -> NotebookNode:
    """A well-formed notebook with what can be read of JSON that is not a valid notebook."""
    cells = []
    for i, (cell_type, source, cell) in enumerate(_texts(damaged)):
        salvaged = _plain(cell_type, source, i)
        if name := _grade_id(cell):
            salvaged.metadata["nbgrader"] = NotebookNode(grade_id=name)
        cells.append(salvaged)
    return _notebook(cells, NotebookNode())


def _notebook(cells: list[NotebookNode], metadata: NotebookNode) -> NotebookNode:
    """Not nbformat's `new_notebook`, which takes a tenth of a second to validate what is validated later anyway."""
    return NotebookNode(cells=cells, metadata=metadata, nbformat=nbformat, nbformat_minor=nbformat_minor)


def _texts(submitted: Any) -> list[_Text]:
    """Everything in the submission that is a cell at all; `submitted` can be any JSON."""
    cells = submitted.get("cells") if isinstance(submitted, Mapping) else None
    found = []
    for cell in cells if isinstance(cells, list) else []:
        cell_type = cell.get("cell_type") if isinstance(cell, Mapping) else None
        if isinstance(cell_type, str) and cell_type in _TYPES:
            text = _text(cell.get("source"))
            if len(text) > MAX_SOURCE:
                text = text[:MAX_SOURCE] + "\n# (the rest of this cell is too long to be shown)"
            found.append((cell_type, text, cell))
    return found


def _text(source: Any) -> str:
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))


def _owners(frame: Mapping[str, NotebookNode], cells: list[_Text]) -> dict[int, str]:
    """Which cell of the submission stands for which cell of the frame: {position: grade_id}.

    Exercise cells go by the grader's own order (grade_id and `# exercise:` line, grade_id, line, the only cell that
    defines the function; the last copy counts), so that the page shows the cell that was graded.
    """
    by_line = {exercise_line(cell.source): name for name, cell in frame.items() if exercise_line(cell.source)}
    by_function = _by_function({name: frame[name].source for name in by_line.values()}, cells)
    by_cell_id = {cell.get("id"): name for name, cell in frame.items()}
    by_source = {cell.source: name for name, cell in frame.items()}
    rules: tuple[Callable[[str, Mapping[str, Any]], str | None], ...] = (
        lambda text, cell: _grade_id(cell) if by_line.get(exercise_line(text)) == _grade_id(cell) else None,
        lambda text, cell: _grade_id(cell) if exercise_line(text) not in by_line else None,
        lambda text, cell: by_line.get(exercise_line(text)),
        lambda text, cell: by_function.get(text),
        lambda text, cell: by_cell_id.get(str(cell.get("id"))),
        lambda text, cell: by_source.get(text),
    )
    owner: dict[int, str] = {}
    for rule in rules:
        for i, (cell_type, text, cell) in reversed(list(enumerate(cells))):
            name = rule(text, cell)
            if name is None or name not in frame or i in owner or name in owner.values():
                continue
            # Text in a cell of another type is not code that the grader reads.
            if cell_type == "code" or frame[name].cell_type != "code":
                owner[i] = name
    return owner


def _by_function(exercises: Mapping[str, str], cells: list[_Text]) -> dict[str, str]:
    """{text: grade_id} of cells without the line that define, alone, what the starter of an exercise defines."""
    code = [text for cell_type, text, _ in cells if cell_type == "code" and exercise_line(text) is None]
    found = {}
    for name, starter in exercises.items():
        defining = [text for text in code if names.defines(text, names.top_level(starter))]
        if len(defining) == 1:
            found[defining[0]] = name
    return found


def _in_frame(original: NotebookNode, source: str) -> NotebookNode:
    cell = deepcopy(original)
    if not original.metadata.nbgrader.get("locked"):
        cell.source = source
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    return cell


def _plain(cell_type: str, source: str, position: int) -> NotebookNode:
    cell = NotebookNode(id=f"submitted-{position}", cell_type=cell_type, metadata=NotebookNode(), source=source)
    return NotebookNode(cell, outputs=[], execution_count=None) if cell_type == "code" else cell


def _insert_missing(notebook: NotebookNode, template: NotebookNode) -> None:
    """Puts back every cell of the frame that the submission lacks, behind the one that comes before it in the frame."""
    present: Iterable[str] = {_grade_id(cell) for cell in notebook.cells}
    behind = 0
    for original in template.cells:
        name = _grade_id(original)
        if not name:
            continue
        if name in present:
            behind = 1 + next(i for i, cell in enumerate(notebook.cells) if _grade_id(cell) == name)
        else:
            notebook.cells.insert(behind, _in_frame(original, original.source))
            behind += 1
