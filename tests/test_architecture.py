"""The map of rooms, held against the imports, and the shape of the code that it is made of."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "colabhive_mcp"
MODULES = sorted(PACKAGE.rglob("*.py"))
GROUND = {"errors", "telemetry"}
BELOW = {  # room -> rooms that it may import; "cli" may import any
    "errors": set(),
    "telemetry": set(),
    "localgateway": set(),
    "kinds": set(),
    "config": {"errors", "kinds"},
    "protocol": {"errors"},
    "gateway": GROUND,
    "manifest": GROUND | {"protocol"},
    "calls": GROUND | {"protocol", "gateway", "manifest"},
    "offer": GROUND | {"config", "kinds", "protocol", "gateway", "manifest", "calls"},
    "bridge": GROUND | {"config", "protocol", "gateway", "manifest", "calls", "offer"},
    "transports": GROUND | {"config", "protocol", "bridge"},
}
OWNER = {  # library -> the only rooms or modules that may import it
    "requests": {"gateway/client.py"},
    "urllib3": {"gateway/client.py", "gateway/guard.py", "gateway/wire.py"},
    "sqlite3": {"localgateway/store.py", "manifest/search.py"},
    "jsonschema": {"manifest"},
    "referencing": {"manifest"},
    "cachetools": {"manifest/cache.py", "transports/tenants.py"},
    "click": {"cli"},
    "waitress": {"cli"},
    "pythonjsonlogger": {"telemetry/logs.py"},
    "prometheus_client": {"telemetry/metrics.py"},
    "limits": {"transports/rates.py"},
    "redis": {"transports/rates.py"},
}
OUT_OF_PROTOCOL = {"threading", "time", "logging", "os", "sys", "socket", "queue"}


def imports(path: Path) -> Iterator[str]:
    """Every module that *path* imports, relative imports spelled out."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = path.relative_to(PACKAGE.parent).parts[: -node.level] if node.level else ()
            stem = ".".join([*parts, *filter(None, [node.module])])
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def to_id(path: Path) -> str:
    """A module's place in the package."""
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=to_id)
def test_imports_point_down(path: Path) -> None:
    """A room imports only rooms below it, and a library only in its home."""
    here = path.relative_to(PACKAGE)
    room = here.parts[0].removesuffix(".py")
    for name in imports(path):
        top, _, rest = name.partition(".")
        there = rest.partition(".")[0]
        if top == "colabhive_mcp" and room in BELOW and there in {*BELOW, "cli"}:
            assert there == room or there in BELOW[room], f"{here} imports {name}"
        homes = OWNER.get(top)
        assert homes is None or here.as_posix() in homes or room in homes, f"{here} imports {name}"
        assert room != "protocol" or top not in OUT_OF_PROTOCOL, f"{here} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=to_id)
def test_only_config_reads_the_environment(path: Path) -> None:
    """``os.environ`` has one home, so that every setting has one source that can be told."""
    reads = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "environb"})
    ]
    assert not reads or to_id(path) == "config.py", f"{to_id(path)} reads the environment at lines {reads}"


@pytest.mark.parametrize("path", MODULES, ids=to_id)
def test_nothing_sleeps_but_by_the_cancel_token(path: Path) -> None:
    """``time.sleep`` can be neither cancelled nor tested; the wait is an argument."""
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Attribute)]
    assert not [node.lineno for node in calls if node.attr == "sleep" and to_id(path).split("/")[0] != "localgateway"]


@pytest.mark.parametrize("path", MODULES, ids=to_id)
def test_modules_say_what_they_own(path: Path) -> None:
    """Every module that holds anything opens with a docstring."""
    tree = ast.parse(path.read_text("utf-8"))
    assert not tree.body or ast.get_docstring(tree)


def test_the_map_in_the_package_is_the_folder() -> None:
    """The package's docstring names every room, and no other."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    named = {line.split("``")[1] for line in (ast.get_docstring(tree) or "").splitlines() if line.startswith("- ``")}
    found = {path.stem for path in PACKAGE.iterdir() if path.name[0] != "_" and (path.is_dir() or path.suffix == ".py")}
    assert found == named


@pytest.mark.parametrize(
    "room", sorted(path.parent for path in PACKAGE.glob("*/__init__.py")), ids=lambda path: path.name
)
def test_each_room_lists_its_modules(room: Path) -> None:
    """A room's docstring names each of its modules, so that the map is never behind the folder."""
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text("utf-8"))) or ""
    named = {line.split()[0].strip("`") for line in text.splitlines() if line.strip()}
    assert {path.stem for path in room.glob("*.py")} - {"__init__"} <= named
