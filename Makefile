# Three commands matter: `make demo`, `make eval` and `make test`. They make what they need: an environment in .venv, by
# uv where there is one. PYTHON picks the interpreter, EXTRAS what is installed, TORCH where torch comes from.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
EXTRAS ?=
TORCH ?=
UV ?= $(shell command -v uv)
DATASET ?= demo
ARGS ?=
# A process more than cores, and one thread in each: a file's tests stay together, as they share fixtures. A process
# that dies is a failure that names its test; xdist 3.8 can wait forever for the one that takes its place.
PYTEST_ARGS ?= -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# Tests of ten seconds and more wait for CI.
MARKS ?= not slow

BIN := $(VENV)/bin
comma := ,
INSTALL := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install)

# The tests need everything. `make eval` and `make demo` take what is there, or install less.
INSTALLED := $(VENV)/.installed-$(or $(EXTRAS),pyserini$(comma)offline$(comma)dev)
FOR_EVAL := $(or $(wildcard $(INSTALLED)),$(VENV)/.installed-$(or $(EXTRAS),pyserini$(comma)offline))
FOR_DEMO := $(or $(wildcard $(INSTALLED)),$(VENV)/.installed-$(or $(EXTRAS),offline$(comma)server))

.DEFAULT_GOAL := help
.PHONY: help demo eval test test-server test-cluster check lint types docs dist install clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(FOR_DEMO) ## Search a built-in index in a page: make demo ARGS=--no-page
	@$(BIN)/surprise-rerank demo $(ARGS)

eval: $(FOR_EVAL) ## Compare the re-rankers: make eval DATASET=beir/scifact ARGS="--run-dir runs"
	@$(BIN)/rerank-eval --dataset '$(DATASET)' $(ARGS)

test: $(INSTALLED) ## Run the tests but the slow ones; make test MARKS= runs all
	OMP_NUM_THREADS=1 $(BIN)/pytest -m '$(MARKS)' $(PYTEST_ARGS)

test-server: $(INSTALLED) ## Test on a real Qdrant: QDRANT_URL=http://localhost:6333 make test-server
	@test -n "$$QDRANT_URL" || { echo "set QDRANT_URL: docker compose up -d; QDRANT_URL=http://localhost:6333 make test-server"; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'server' $(PYTEST_ARGS)

# One process: the tests stop nodes under each other's feet otherwise. {node} is the number of the address in QDRANT_URL:
#   docker compose --profile cluster up -d
#   export QDRANT_URL=http://localhost:6343,http://localhost:6353,http://localhost:6363
#   export QDRANT_STOP_NODE='docker compose --profile cluster kill qdrant-node-{node}'
#   and QDRANT_START_NODE (start), QDRANT_PAUSE_NODE (pause), QDRANT_RESUME_NODE (unpause) likewise
test-cluster: $(INSTALLED) ## Test on three nodes that are stopped meanwhile
	@test -n "$$QDRANT_STOP_NODE" || { echo "set QDRANT_URL and QDRANT_STOP_NODE as the Makefile has them"; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'cluster'

check: MARKS =
check: lint types test ## Everything that CI runs

lint: $(INSTALLED) ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED) ## mypy --strict, on the package as it is installed
	cd $(VENV) && $(abspath $(BIN))/mypy --config-file $(abspath pyproject.toml) -p surprise_rerank

docs: $(INSTALLED) ## Build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: $(INSTALLED) ## Build the wheel and the source distribution, and check what an index would show of them
	@rm -rf dist
	$(BIN)/python -m build --no-isolation
	@rm -rf build
	$(BIN)/twine check --strict dist/*

install: $(INSTALLED) ## Make the environment

# torch comes first and on its own: where there is a GPU, or no way to its other build, it brings gigabytes of CUDA
# packages, half of all. TORCH="--index-url https://..." says where it comes from.
CPU_TORCH := https://download.pytorch.org/whl/cpu
HAS_CPU_BUILD := [ "$$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null && \
	$(PYTHON) -c "import urllib.request as u; u.urlopen('$(CPU_TORCH)/torch/', timeout=5)" 2>/dev/null

$(VENV)/.torch:
	@echo "Making the environment in $(VENV): some minutes the first time, of which torch takes half; pip is silent while it unpacks, up to two."
	$(PYTHON) -m venv $(VENV)
	@if [ -z '$(TORCH)' ] && $(HAS_CPU_BUILD); then \
		echo "No GPU here: torch without CUDA, 0.2 GB."; \
		$(INSTALL) --index-url $(CPU_TORCH) torch==2.13.0; \
	else \
		echo "torch as your package index has it: 3 GB with CUDA on Linux."; \
		$(INSTALL) $(TORCH) torch==2.13.0; \
	fi
	@touch $@

# A copy, not an editable install, whose folder mapping mypy does not follow; renewed when a source changes.
$(VENV)/.installed-%: $(VENV)/.torch pyproject.toml $(shell find surprise_rerank connectors eval -type f -not -name '*.pyc')
	@rm -rf build
	$(INSTALL) $(if $(UV),--reinstall-package surprise-rerank) '.[$*]'
	@rm -rf build
	@touch $@

clean: ## Remove the environment and what tools left behind
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
