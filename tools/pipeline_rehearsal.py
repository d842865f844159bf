"""Runs the pipeline's synth build on this machine: the commands of the generated buildspec, as written, in a clean checkout.

It takes the committed state without its history, as the source action does, so that a file nobody added fails here as it would
in the pipeline, and gives the build the environment variables that the pipeline gives it and no credentials. This is no test of
the suite because it runs the suite.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = {
    "SOURCE_CONNECTION_ARN": "arn:aws:codeconnections:us-east-1:123456789012:connection/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
    "SOURCE_REPOSITORY": "owner/name",
    "SOURCE_BRANCH": "main",
}
# What a build machine has beside its tools; notably no AWS variables and none of this shell's settings.
_PASSED_ON = ("PATH", "LANG", "PIP_INDEX_URL", "PIP_CACHE_DIR", "NPM_CONFIG_REGISTRY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        checkout, home, assembly = (Path(folder) / name for name in ("checkout", "home", "assembly"))
        home.mkdir()
        environment = {name: value for name in _PASSED_ON if (value := os.environ.get(name))} | {"HOME": str(home)}
        checkout.mkdir()
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "--extract"], cwd=checkout, input=archive.stdout, check=True)
        synth(ROOT, assembly, {**environment, **SOURCE})
        project = synth_project(json.loads((assembly / "DeliveryStack.template.json").read_text()))
        variables = project["Environment"]["EnvironmentVariables"]
        environment |= {variable["Name"]: variable["Value"] for variable in variables}
        buildspec = json.loads(project["Source"]["BuildSpec"])
        commands = [command for phase in buildspec["phases"].values() for command in phase.get("commands", [])]
        print(f"in {checkout}: {'; '.join(commands)}", flush=True)
        # One shell for all commands, as buildspec version 0.2 has it.
        build = subprocess.run(["bash", "-ec", "\n".join(commands)], cwd=checkout, env=environment, check=False)
        if build.returncode:
            sys.exit(f"The build ended with status {build.returncode}.")
        compare(checkout / buildspec["artifacts"]["base-directory"], assembly)
    print("The build succeeded and made the pipeline that it is a part of.")


def synth(directory: Path, output: Path, environment: dict[str, str]) -> None:
    subprocess.run(
        [ROOT / "node_modules" / ".bin" / "cdk", "synth", "--quiet", "--output", output],
        cwd=directory,
        env={**environment, "PATH": f"{ROOT / '.venv' / 'bin'}:{environment['PATH']}"},
        check=True,
    )


def synth_project(template: dict[str, Any]) -> dict[str, Any]:
    """The CodeBuild project whose output is the cloud assembly."""
    resources = template["Resources"].values()
    projects = [resource["Properties"] for resource in resources if resource["Type"] == "AWS::CodeBuild::Project"]
    (found,) = [project for project in projects if '"base-directory": "cdk.out"' in project["Source"]["BuildSpec"]]
    return found


def compare(made: Path, expected: Path) -> None:
    """The build's templates are those that started the pipeline: otherwise it would change itself on every run."""
    names = {path.relative_to(expected) for path in expected.rglob("*.template.json")}
    if {path.relative_to(made) for path in made.rglob("*.template.json")} != names:
        sys.exit("The build made other templates than this checkout.")
    if different := [str(name) for name in names if (made / name).read_bytes() != (expected / name).read_bytes()]:
        sys.exit(f"The build made different templates: {', '.join(sorted(different))}. Is everything committed?")


if __name__ == "__main__":
    main()
