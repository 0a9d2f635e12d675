"""``lockstep build``: make every generated file of the course, or say which ones differ."""

from __future__ import annotations

from pathlib import Path

import click

from autograder import course as course_file
from autograder.build import tree


@click.command()
@click.argument("lab", default="")
@click.option("--check", is_flag=True, help="Write nothing; say what differs and exit with 1 if anything does.")
@click.option("--force", is_flag=True, help="Overwrite notebooks in labs/ that were edited since they were built.")
@click.option("--nbgrader", type=click.Path(path_type=Path), help="Also write nbgrader's source tree to this folder.")
@click.option("--reference", type=click.Path(path_type=Path), help="Also write the solved notebooks to this folder.")
def build(lab: str, check: bool, force: bool, nbgrader: Path | None, reference: Path | None) -> None:
    """Make the student notebooks in labs/ and the README's lab table from solutions/, or those of one LAB."""
    root = course_file.find_root()
    files = tree.generate(root, lab)
    if check:
        differing = tree.differences(root, files)
        for sentence in differing:
            click.echo(sentence)
        click.echo("run lockstep build" if differing else f"{len(files)} generated files are up to date")
        raise SystemExit(1 if differing else 0)
    written = tree.write(root, files, force=force)
    click.echo("\n".join(f"wrote {name}" for name in written) or "nothing changed")
    labs = [lab.id for lab in course_file.load(root).labs() if lab.exercises]
    for lab_id in labs if nbgrader else []:
        assert nbgrader is not None
        click.echo(f"wrote {tree.nbgrader_source(root, lab_id, nbgrader)}")
    for lab_id in ["start", *labs] if reference else []:
        assert reference is not None
        reference.mkdir(parents=True, exist_ok=True)
        (reference / f"{lab_id}.ipynb").write_bytes(tree.solution_notebook(root, lab_id))
        click.echo(f"wrote {reference / f'{lab_id}.ipynb'}")
