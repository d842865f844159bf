"""Who may import whom, and the folder that shares its name with a package."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = {"app", "settings", "delivery_source", "delivery_plan", "stacks", "constructs", "charts", "catalog"}
ALLOWED = {
    "app.py": {"settings", "delivery_plan", "stacks"},
    "settings.py": {"catalog"},
    "delivery_source.py": {"settings"},
    "delivery_plan.py": {"settings", "delivery_source", "catalog"},
    "stacks": {"stacks", "constructs", "charts", "settings", "delivery_plan", "catalog"},
    "constructs": {"constructs", "catalog"},
    "charts": {"charts", "catalog", "constructs"},
    "catalog": {"catalog"},
}
HANDLER_LIBRARIES = {"boto3", "botocore"}


def modules(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def sources() -> list[Path]:
    folders = [ROOT / name for name in ALLOWED if not name.endswith(".py")]
    files = [path for folder in folders for path in folder.rglob("*.py") if "scripts" not in path.parts]
    return [*(ROOT / name for name in ALLOWED if name.endswith(".py")), *files]


def own_constructs(module: str) -> bool:
    return (ROOT / Path(*module.split(".")[:2])).with_suffix(".py").exists() or (ROOT / Path(*module.split(".")[:2])).is_dir()


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_layers(path: Path) -> None:
    relative = path.relative_to(ROOT)
    if "handler" in relative.parts:
        foreign = {module.split(".")[0] for module in modules(path)} - set(sys.stdlib_module_names) - HANDLER_LIBRARIES
        assert not foreign, "handlers import the standard library and boto3 only"
        return
    imported = {module for module in modules(path) if module.split(".")[0] in OWN}
    if relative.parts[0] == "charts":
        assert not [module for module in modules(path) if module.startswith("aws_cdk")], "charts know no CloudFormation"
        assert not [module for module in imported if module.startswith("constructs.") and own_constructs(module)]
    assert {module.split(".")[0] for module in imported} <= ALLOWED[relative.parts[0]]


def test_serve_config_is_pure_python() -> None:
    code = "import sys, charts.serve_config; print([m for m in ('cdk8s', 'aws_cdk', 'jsii', 'yaml') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_nothing_but_settings_reads_environment_or_context() -> None:
    readers = [
        path.relative_to(ROOT)
        for path in sources()
        if "handler" not in path.parts and any(word in path.read_text() for word in ("os.environ", "getenv", "get_context"))
    ]
    assert {str(path) for path in readers} <= {"app.py", "settings.py"}


def test_constructs_has_no_init_file() -> None:
    offending = [
        str(path.relative_to(ROOT)) for path in (ROOT / "constructs" / "__init__.py", ROOT / "tests/constructs/__init__.py")
    ]
    assert not [name for name in offending if (ROOT / name).exists()], "it hides the PyPI package of that name: delete it"


@pytest.mark.parametrize("path", [path for path in sources() if path.parent != ROOT], ids=lambda path: str(path.relative_to(ROOT)))
def test_one_public_class_per_file(path: Path) -> None:
    classes = [
        node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert len(classes) <= 1
