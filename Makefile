# Each target is one line into tools/bootstrap.py (standard library only) or the lockstep command.
# PYTHON=python3.12 make start      chooses the interpreter that .venv is made with
# make start TORCH_INDEX=URL        takes torch from URL (README: the CPU build on Linux)
PYTHON ?= python3
SUBMISSIONS ?= submissions
export TORCH_INDEX

boot = @command -v $(PYTHON) >/dev/null 2>&1 || { echo "lockstep: no $(PYTHON) on this machine. Install Python 3.11 or newer (python.org, or your package manager), then run make again." >&2; exit 1; }; exec $(PYTHON) tools/bootstrap.py

.PHONY: help start test grade build bench lint clean
help:
	@echo "make start   install what is missing, open JupyterLab     make test    run the tests"
	@echo "make grade SUBMISSIONS=folder   grade submissions         make build   make labs/ from solutions/"
	@echo "make bench   measure      make lint   ruff and mypy       make clean   remove .venv and caches"

start:
	$(boot) start
test:
	$(boot) test $(ARGS)
grade:
	$(boot) run lab,grade lockstep grade $(SUBMISSIONS)
build:
	$(boot) run lab,grade lockstep build $(ARGS)
bench:
	$(boot) run lab,grade python -m benchmarks $(ARGS)
lint:
	$(boot) run lab,grade,test sh -c "ruff check . && mypy"
clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
