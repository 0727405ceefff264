"""The floors: arrows only fall, and each heavy library has one home."""

import ast
import importlib.util
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
FLOORS = {"schemas": 0, "warehouse": 1, "ingest": 2, "validate": 2, "train": 2, "flows": 3}
HOMES = {"torch": "train", "transformers": "train", "peft": "train", "prefect": "flows", "duckdb": "warehouse"}


def imported(file: Path) -> set[str]:
    """Top-level names that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import; absolute ones only"
            names.add(str(node.module).split(".")[0])
    return names


def files_of(package: str) -> list[Path]:
    """Every Python file of a package, sorted."""
    return sorted((HOUSE / package).rglob("*.py"))


@pytest.mark.parametrize("package", FLOORS)
def test_arrows_only_fall(package):
    """A package imports packages of lower floors and itself, nothing beside or above it."""
    for file in files_of(package):
        for name in imported(file) & set(FLOORS):
            assert name == package or FLOORS[name] < FLOORS[package], f"{file} imports {name}"


@pytest.mark.parametrize(("library", "home"), HOMES.items())
def test_a_heavy_library_has_one_home(library, home):
    """Torch and friends only under train, prefect only under flows, duckdb only under warehouse."""
    for package in FLOORS:
        if package != home:
            for file in files_of(package):
                assert library not in imported(file), f"{file} imports {library}"


@pytest.mark.parametrize("package", FLOORS)
def test_a_name_of_ours_resolves_to_this_checkout(package):
    """Another distribution that installs the same top-level name would mix in silently."""
    spec = importlib.util.find_spec(package)
    assert Path(spec.origin).resolve() == HOUSE / package / "__init__.py"


def test_no_flow_file_bears_the_name_of_a_package():
    """Prefect's path entrypoints would import it in place of the package."""
    assert not {file.stem for file in files_of("flows")} & set(FLOORS)


def test_every_package_folder_is_listed_for_the_install():
    """An editable install maps the listed packages only; a folder left out is missing from a wheel."""
    folders = {".".join(file.parent.relative_to(HOUSE).parts) for package in FLOORS for file in files_of(package)}
    listed = ast.literal_eval(
        (HOUSE / "pyproject.toml").read_text(encoding="utf-8").split("packages = ", 1)[1].split("]", 1)[0] + "]"
    )
    assert folders == set(listed)


def test_no_sql_statement_lives_in_a_python_string():
    """Every line of SQL is in a .sql file, the attach and transaction statements of the lake excepted."""
    for package in FLOORS:
        for file in files_of(package):
            if file.name in {"lake.py", "columns.py"}:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    text = node.value.lstrip().lower()
                    assert (
                        not text.startswith(("select ", "insert into", "delete from", "with "))
                        or "from" not in text.split()
                    ), f"{file}:{node.lineno}"
