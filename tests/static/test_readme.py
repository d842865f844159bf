"""What the README says of settings, make targets and files is so."""

import re
from pathlib import Path

from settings import PIPELINE_NAMES, SETTING_NAMES, Settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
# No literal default: found at deploy time, the region's, or none.
DEFAULTS = {
    "GPU_AZ": "(found)",
    "DLC_IMAGE": "(the region's)",
    "HF_TOKEN_SECRET": "(none)",
    "CHART_REPOSITORY": "(each chart's own)",
}
DEFAULTS |= dict.fromkeys(PIPELINE_NAMES, "(none)")


def test_every_setting_is_documented_with_its_default_and_an_example() -> None:
    table = README.partition("| setting | default |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| ([A-Z][A-Z0-9_]+) \| ([^|]*) \|", table, re.MULTILINE))
    defaults = Settings.load(context={}, environ={})
    assert set(rows) == set(SETTING_NAMES)
    for name, text in rows.items():
        value = getattr(defaults, name.lower(), None)
        value = ",".join(value) if isinstance(value, tuple) else value
        assert text.strip() == DEFAULTS.get(name, str(value)), name


def test_every_make_target_in_the_documents_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    documents = [README, *(path.read_text() for path in [ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")])]
    named = {target for text in documents for target in re.findall(r"`?make ([a-z][a-z-]+)", text)}
    assert named
    assert not [target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)]


def test_every_make_target_is_explained() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    phony = [line.split(":")[1].strip() for line in lines if line.startswith(".PHONY:")]
    assert phony
    for target in phony:
        assert any(re.match(rf"{target}:.*## \S", line) for line in lines), target


def test_every_output_is_documented(synth) -> None:
    outputs = {name for template in synth().by_stack.values() for name in template["Outputs"] if not name.startswith("Exports")}
    assert not [name for name in outputs if name not in README]


def test_nothing_is_left_to_fill_in() -> None:
    assert "@@" not in README


def test_files_named_in_the_readme_exist() -> None:
    for name in re.findall(r"`((?:catalog|charts|stacks|constructs|local|bench|tests|docs)/[\w./-]*)`", README):
        assert (ROOT / name).exists(), name
