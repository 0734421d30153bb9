"""The table of rooms: who may import whom, what may be imported from outside, and the shape of the code."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import credo

SOURCE = Path(credo.__file__).parent

GROUND = {"core"}
MODEL = GROUND | {"likelihoods", "priors", "nets"}
BELIEF = MODEL | {"model", "predictive"}
METHODS = BELIEF | {"calibration", "posteriors"}
LOOP = METHODS | {"methods"}
FIT = LOOP | {"loop"}
CORE = FIT | {"fit"}
MEASURES = {"uncertainty", "metrics", "diagnostics"}
TABLES_AND_PAGES = {"data", "evaluation", "reports", "tabular", "vision"}
APPLIED = CORE | MEASURES | {"exact", "decide", "generative"} | TABLES_AND_PAGES
ROOT = "credo"
"""The package itself: what `import credo` and names from its face come from."""

ROOMS: dict[str, set[str]] = {
    "core": set(),
    "likelihoods": GROUND,
    "priors": GROUND,
    "nets": GROUND,
    "model": MODEL,
    "predictive": GROUND | {"likelihoods"},
    "calibration": GROUND | {"likelihoods", "predictive"},
    "posteriors": BELIEF | {"calibration"},
    "kernels": MODEL,
    "methods": METHODS | {"kernels"},
    "loop": LOOP,
    "fit": FIT,
    "exact": GROUND,
    "uncertainty": METHODS,
    "metrics": BELIEF,
    "diagnostics": LOOP,
    "decide": CORE | MEASURES | {"exact"},
    "generative": CORE,
    "data": GROUND,
    "evaluation": BELIEF | MEASURES | {"data", "decide"},
    "reports": GROUND | MEASURES | {"predictive", "posteriors", "evaluation", "loop"},
    "tabular": CORE | {"data", "decide", "evaluation", "reports", "uncertainty"},
    "vision": CORE | {"data", "decide", "evaluation", "generative", "reports", "uncertainty", "tabular"},
    "experiments": APPLIED | {ROOT},
    "estimators": CORE | {"data", "tabular"},
    "cli": APPLIED | {"experiments", ROOT},
    "__init__": APPLIED | {"estimators"},
}
"""Room: the rooms that it may import."""

BARE = {"torch", "numpy", "safetensors", "typing_extensions"}
TABLES = {"pandas", "sklearn"}
FOREIGN: dict[str, set[str]] = {
    **dict.fromkeys((*CORE, *MEASURES, "kernels", "exact", "decide", "generative", "__init__"), BARE),
    "data": BARE | TABLES,
    "evaluation": BARE | TABLES,
    "tabular": BARE | TABLES,
    "vision": BARE | TABLES,
    "estimators": BARE | TABLES,
    "reports": BARE | {"matplotlib", "rich", "jinja2"},
    "experiments": BARE | {"matplotlib"},
    "cli": BARE | TABLES | {"typer", "rich", "click"},
}
"""Room: the packages of others that it may import."""

FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def title(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """Line and dotted name, in parts, of everything that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import in line {node.lineno}"
            assert node.module is not None
            yield from ((node.lineno, [*node.module.split("."), alias.name]) for alias in node.names)


def trespasses(path: Path, tree: ast.AST) -> list[str]:
    """Imports that the tables do not allow."""
    room, found = room_of(path), []
    for line, (package, *rest) in imports(tree):
        if package == "credo":
            visited = rest[0] if rest and rest[0] in ROOMS else ROOT
            allowed = visited == room or visited in ROOMS[room]
        else:
            visited, allowed = package, package in sys.stdlib_module_names or package in FOREIGN[room]
        if not allowed:
            found.append(f"{title(path)}:{line} imports {visited}")
    return found


def test_every_room_is_in_the_table() -> None:
    assert {room_of(path) for path in FILES} <= ROOMS.keys()
    assert ROOMS.keys() == FOREIGN.keys()


def test_the_rooms_have_an_order() -> None:
    """No two rooms may import each other, not even by way of others."""
    left = {room: allowed - {ROOT} for room, allowed in ROOMS.items() if room != "__init__"}
    while left:
        free = {room for room, allowed in left.items() if not allowed & left.keys()}
        assert free, f"a circle among {sorted(left)}"
        left = {room: allowed for room, allowed in left.items() if room not in free}


@pytest.mark.parametrize("path", FILES, ids=title)
def test_a_room_imports_what_the_table_allows(path: Path) -> None:
    assert trespasses(path, TREES[path]) == []


@pytest.mark.parametrize(
    "line",
    ["import matplotlib.pyplot", "from credo.fit import fit", "from credo import fit", "import credo", "import pandas"],
)
def test_a_trespass_is_noticed(line: str) -> None:
    assert len(trespasses(SOURCE / "core" / "rng.py", ast.parse(f"def f():\n    {line}"))) == 1


def inner_imports(tree: ast.AST) -> list[int]:
    """Lines inside functions that import modules of credo's."""
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    return [line for function in functions for line, parts in imports(function) if parts[0] == "credo"]


def test_the_command_line_imports_experiments_for_two_commands_alone() -> None:
    known = {
        path.stem
        for path in FILES
        if room_of(path) == "cli" and any(parts[:2] == ["credo", "experiments"] for _, parts in imports(TREES[path]))
    }
    assert known == {"compare", "reproduce"}


@pytest.mark.parametrize("path", FILES, ids=title)
def test_no_import_of_our_own_hides_in_a_function(path: Path) -> None:
    assert inner_imports(TREES[path]) == []


def test_a_hidden_import_is_noticed() -> None:
    assert inner_imports(ast.parse("def f():\n    from credo.fit import fit")) == [2]


def test_no_file_is_called_utils() -> None:
    names = {path.stem for path in FILES} | {path.parent.name for path in FILES}
    assert not names & {"utils", "util", "helpers", "misc", "common"}


HEAVY = {"torch", "numpy", "matplotlib", "pandas", "sklearn", "scipy"}


def loaded_by(code: str) -> set[str]:
    """Packages that are loaded after some code in a new process."""
    code = f"{code}\nimport sys\nprint('packages:', *sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("packages:")[2].split())


def test_importing_credo_loads_nothing_heavy() -> None:
    assert not (HEAVY | {"typer", "rich"}) & loaded_by("import credo; dir(credo)")
    assert not (HEAVY | {"typer", "rich"}) - {"torch", "numpy"} & loaded_by("import credo; credo.fit, credo.MAP")
    assert {"torch", "numpy"} <= loaded_by("import credo; credo.fit")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        *([command, "--help"] for command in ("fit", "predict", "report", "methods", "data", "demo", "compare", "vae")),
        ["data", "get", "--help"],
        ["reproduce", "--help"],
        ["complete", ""],
        ["complete", "fit --method "],
        ["complete", "reproduce "],
        ["complete", "data get "],
    ],
    ids=" ".join,
)
def test_help_and_completion_do_not_wait_for_torch(arguments: list[str]) -> None:
    shell = ""
    if arguments[0] == "complete":
        words, place = f"credo {arguments[1]}", arguments[1].count(" ") + 1
        shell = f"os.environ.update(_CREDO_COMPLETE='complete_bash', COMP_WORDS={words!r}, COMP_CWORD='{place}')"
        arguments = []
    code = f"import os, sys\nfrom credo.cli.main import main\n{shell}\nsys.argv = ['credo', *{arguments}]"
    loaded = loaded_by(f"{code}\ntry:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code")
    assert "typer" in loaded
    assert not HEAVY & loaded


def test_a_command_that_runs_does_load_torch() -> None:
    """The twin of the test above, which would pass if nothing were ever loaded."""
    code = "import sys\nfrom credo.cli.main import main\nsys.argv = ['credo', 'methods', '--json']"
    assert "torch" in loaded_by(f"{code}\ntry:\n    main()\nexcept SystemExit:\n    pass")


def test_every_public_name_is_declared_for_type_checkers_and_found() -> None:
    """The list of names, the imports that type checkers read and the table of homes say the same."""
    guarded = next(node for node in TREES[SOURCE / "__init__.py"].body if isinstance(node, ast.If))
    declared = {parts[-1]: ".".join(parts[:-1]) for _, parts in imports(guarded)}
    assert declared.keys() == set(credo.__all__)
    assert set(credo.__all__) <= set(dir(credo))
    for name, home in declared.items():
        module = importlib.import_module(home)
        assert getattr(credo, name) is getattr(module, name), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = credo.nothing  # type: ignore[attr-defined]


def test_the_function_fit_is_not_hidden_by_its_module() -> None:
    """Importing credo.fit binds the module to that name of the package; with eager imports the function came after."""
    code = "import credo, credo.fit\nfrom credo.fit import CredoWarning\nassert callable(credo.fit), credo.fit"
    loaded_by(code)


def test_the_core_runs_with_nothing_else_installed() -> None:
    """With every other package hidden, as on a bare machine with a GPU."""
    code = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("matplotlib", "pandas", "sklearn", "scipy", "typer", "rich", "pyarrow"):
            raise ImportError(name)
sys.meta_path.insert(0, Hidden())
import torch, credo
x = torch.linspace(-1, 1, 8)[:, None]
posterior = credo.fit(credo.nets.MLP(1, 1, (4,)), (x, x), credo.DeepEnsemble(members=2, epochs=1))
print(posterior.predict(x).interval(0.9)[0].shape[0])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "8\n"


def classes() -> dict[str, ast.ClassDef]:
    return {node.name: node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


NAMESAKES = ("Laplace",)
"""Names of two classes: priors.Laplace and the method, which the field calls by the same man."""


def repeated_names(trees: list[ast.Module]) -> list[str]:
    """Names of more than one class, or of a class and of another type; a leading underscore makes no other name."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    defined = [node.name.lstrip("_") for node in nodes if isinstance(node, ast.ClassDef)]
    classes = Counter(defined) - Counter(NAMESAKES)
    tops = [node.targets[0] for tree in trees for node in tree.body if isinstance(node, ast.Assign)]
    others = {node.id.lstrip("_") for node in tops if isinstance(node, ast.Name) and not node.id.isupper()}
    return sorted(name for name, count in classes.items() if count > 1 or name in others)


def test_one_name_for_one_class() -> None:
    assert repeated_names(list(TREES.values())) == []


def test_a_name_for_two_classes_is_noticed() -> None:
    assert repeated_names([ast.parse("class A: ..."), ast.parse("class _A: ...\nclass B: ...")]) == ["A"]
    assert repeated_names([ast.parse("class Pair: ..."), ast.parse("Pair = tuple[int, int]")]) == ["Pair"]


def names(nodes: list[ast.expr]) -> list[str]:
    """The last words of dotted names."""
    plain = (node.value if isinstance(node, ast.Subscript) else node for node in nodes)
    return [node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in plain]


def is_abstract(node: ast.ClassDef) -> bool:
    """Whether a class says itself that it is not to be made: by an abstract method, or as ABC or Protocol."""
    methods = (item for item in node.body if isinstance(item, ast.FunctionDef))
    marked = any("abstractmethod" in names(method.decorator_list) for method in methods)
    return marked or bool({"ABC", "Protocol"} & set(names(node.bases)))


def concrete_ancestors(known: dict[str, ast.ClassDef]) -> list[str]:
    """Classes that are subclassed without being abstract; errors may form families."""
    return [
        f"{node.name} inherits from {base}"
        for node in known.values()
        for base in names(node.bases)
        if base in known and not is_abstract(known[base]) and not base.endswith(("Error", "Warning"))
    ]


def test_every_class_is_abstract_or_final() -> None:
    assert concrete_ancestors(classes()) == []


def test_a_concrete_ancestor_is_noticed() -> None:
    tree = ast.parse("class A(ABC): ...\nclass B(A): ...\nclass C(B): ...")
    known = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    assert concrete_ancestors(known) == ["C inherits from B"]


@pytest.mark.parametrize("path", FILES, ids=title)
def test_files_and_functions_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= 60, f"{title(path)}: {node.name} has {lines} lines"


FORBIDDEN = {
    "unfinished work": r"\b(TODO|FIXME|XXX)\b|raise NotImplementedError",
    "a path of one machine": r"[\"'](/work|/tmp|/home|/root)\b",
    "a global generator": r"torch\.(cuda\.)?(manual_seed|seed|initial_seed)\(|\b(np|numpy)\.random\b|^import random$",
}
ALLOWED = {"nets/hidden_noise.py": ("a global generator",)}  # looks whether a module draws from them


@pytest.mark.parametrize("path", FILES, ids=title)
@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_source_has_none_of(name: str, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = re.search(FORBIDDEN[name], text, re.MULTILINE)
    if name in ALLOWED.get(title(path), ()):
        assert found
        return
    assert found is None, f"{title(path)}: {found.group()}"
