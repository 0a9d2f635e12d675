"""course.yaml is strict: what nobody reads, and what does not add up, is an error that says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder import course
from autograder.errors import CourseFileError, UnknownExerciseError
from tests.autograder.small import COURSE, ENTRY, EXERCISE, write_course

REPOSITORY = Path(__file__).resolve().parents[2]

WRONG = {
    "unknown key": ("title: Ring\n", "title: Ring\ncolour: red\n", "unknown field `colour`", "known keys: id, title"),
    "place": ("tier: core", "tier: optional", "at $.tier", "solutions/lab2/ring-all-reduce/exercise.yaml"),
    "missing key": ("        title: Lab two\n", "", "missing required field `title`", "$.stages[0].labs[0]"),
    "wrong type": ("points: 3\n", "points: three\n", "Expected `float`, got `str`".lower(), "points"),
    "twice in YAML": ("id: small", "id: small\nid: large", "course.yaml:3", "'id' appears twice"),
    "not YAML": ("id: small", "id: [small", "course.yaml:", ""),
    "duplicate lab": ("{id: lab3,", "{id: lab2,", "lab id 'lab2' is used twice", ""),
    "points": ("points: 3\n", "points: 4\n", "points is 4 but its parts add up to 3", EXERCISE),
    "minutes": ("minutes: 30", "minutes: 0", "minutes must be between", EXERCISE),
    "part points": ("points: 2}", "points: 0}", "every part needs points above 0", EXERCISE),
    "part keys": ("key: bytes", "key: value", "their keys must differ", EXERCISE),
    "other folder": ("id: lab2/ring", "id: lab9/ring", "the folder says lab2/ring-all-reduce", "lab9/ring-all-reduce"),
    "named twice": ("ring-all-reduce, tree]", "ring-all-reduce, tree, tree]", "'lab2/tree' is used twice", ""),
    "not all there": (
        "        exercises",
        "        ready: true\n        exercises",
        "these are not there: tree",
        "lab2",
    ),
    "too short": (
        "        exercises: [ring-all-reduce, tree]",
        "        ready: true",
        "a ready lab takes 65 to 90",
        "45 minutes",
    ),
    "deadline": ("deadline_s: 60", "deadline_s: 0", "deadline_s must be above 0", ""),
    "version": ("format_version: 1", "format_version: 2", "format_version", "2"),
}


@pytest.mark.parametrize("case", WRONG, ids=list(WRONG))
def test_what_is_wrong_is_said_with_its_place(case: str, tmp_path: Path) -> None:
    old, new, said, where = WRONG[case]
    assert old in COURSE + ENTRY
    write_course(tmp_path, course=COURSE.replace(old, new, 1), entry=ENTRY.replace(old, new, 1))
    with pytest.raises(CourseFileError) as error:
        course.load_sources(tmp_path)
    assert said.lower() in str(error.value).lower()
    assert where in str(error.value)


def test_totals_are_derived(tmp_path: Path) -> None:
    loaded = course.load_sources(write_course(tmp_path))
    assert loaded.lab("lab2").max_points == 3
    assert [e.id for e in loaded.exercises()] == [EXERCISE]
    assert loaded.lab("lab2").planned == ("tree",)
    assert loaded.exercise(EXERCISE).name == "ring-all-reduce"
    table = course.readme_table(loaded)
    assert "| Stage one | lab2: Lab two | preview | 45 | Ring (core, 30 min) | 3 |" in table
    (tmp_path / "stretch").mkdir()
    stretch = write_course(tmp_path / "stretch", entry=ENTRY.replace("tier: core", "tier: stretch"))
    assert course.load_sources(stretch).lab("lab2").max_points == 0
    assert "| Stage one | lab3: Lab three | planned | | | |" in table


def test_students_have_the_same_course_from_the_generated_files(built: Path) -> None:
    assert course.load(built) == course.load_sources(built)


def test_an_exercise_needs_no_entry_in_the_course_file(tmp_path: Path) -> None:
    loaded = course.load_sources(write_course(tmp_path, course=COURSE.replace("ring-all-reduce, tree", "tree")))
    assert [e.id for e in loaded.exercises()] == [EXERCISE]


def test_unknown_ids_are_answered_with_the_known_ones(tmp_path: Path) -> None:
    loaded = course.load_sources(write_course(tmp_path))
    with pytest.raises(UnknownExerciseError, match=EXERCISE):
        loaded.exercise("lab2/tree")
    with pytest.raises(UnknownExerciseError, match="lab2, lab3"):
        loaded.lab("lab8")


def test_the_course_folder_is_found_from_below(tmp_path: Path) -> None:
    (tmp_path / "course.yaml").write_text(COURSE)
    below = tmp_path / "labs" / "lab2"
    below.mkdir(parents=True)
    assert course.find_root(below) == tmp_path.resolve()


def test_the_real_course_names_its_three_stages() -> None:
    real = course.load(REPOSITORY)
    assert [s.title for s in real.stages] == ["Frame and baseline", "Build and stress", "Resolve and operate"]
    assert [lab.id for lab in real.labs()] == ["lab1", "lab2", "lab3", "lab4", "lab5", "homework"]
    assert all(lab.exercises for lab in real.labs() if lab.state != "planned")
