"""The package as a whole: cheap to import, and every data file says where its facts come from."""

import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest

import catalog

DIRECTORY = Path(catalog.__file__).parent
IMPORT = """
import sys
import catalog.efa_instance_type, catalog.image_registry, catalog.kubernetes_version
loaded = {name.partition(".")[0] for name in sys.modules}
print(*sorted(loaded - set(sys.stdlib_module_names)))
for function in (
    catalog.efa_instance_type.efa_instance_types,
    catalog.efa_instance_type.near_alternatives,
    catalog.kubernetes_version.kubernetes_versions,
    catalog.image_registry._data,
):
    assert function.cache_info().currsize == 0, function
"""


def test_import_takes_the_standard_library_only_and_reads_nothing() -> None:
    run = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(DIRECTORY.parent)!r})\n{IMPORT}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    foreign = {name for name in run.stdout.split() if not name.startswith(("_", "__"))}
    assert foreign <= {"catalog", "sitecustomize", "distutils-precedence"}


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.toml")), ids=lambda path: path.stem)
def test_data_has_source_and_date(path: Path) -> None:
    data = tomllib.loads(path.read_text())
    tables = [data] if "source" in data else [table for table in data.values() if "accounts" in table]
    assert tables
    for table in tables:
        assert table["source"].startswith("https://")
        assert isinstance(table["date"], date)
