# Every target does its own set-up: a virtual environment from the constraints file, then the work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo demo-network test check bench slow dist clean torch peers architecture docs gallery help

help:
	@echo "make demo   FedAvg, FedPAQ and private FedPAQ on the embedded digits under one bit budget: report in runs/demo"
	@echo "make demo-network  a server and five devices over TLS on this machine, beside their simulation: runs/demo-network"
	@echo "make test   run all tests but the slow ones, on all cores (minutes)"
	@echo "make slow   run the slow tests: whole papers, large models, whole processes"
	@echo "make check  ruff, mypy and the import rules"
	@echo "make bench  hush beside its peers: one table of ratios (long; makes environments of its own)"
	@echo "make dist   build the wheel and the source archive in dist/"
	@echo "make architecture  the table and the picture of docs/architecture.md, from the code"
	@echo "make docs   the documentation as a site in site/, to be opened from the folder: site/index.html"
	@echo "make gallery  the pictures of docs/gallery.md, by small runs"
	@echo "make torch  add the PyTorch extra to the environment"
	@echo "make peers  add what some tests meet for real: TensorBoard, MLflow, Hugging Face datasets, notebooks"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/hush run examples/demo/fedavg.toml --out runs/demo/fedavg --force
	$(BIN)/hush run examples/demo/fedpaq.toml --out runs/demo/fedpaq --force
	$(BIN)/hush run examples/demo/private_fedpaq.toml --out runs/demo/private_fedpaq --force
	$(BIN)/hush compare runs/demo/fedavg runs/demo/fedpaq runs/demo/private_fedpaq --out runs/demo/comparison

demo-network: $(READY)
	$(BIN)/python examples/network/demo.py

# Each worker goes through half of the tests in order, so that a file's share what they have compiled, and who is done
# first helps the other.
test: $(READY)
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

slow: $(READY)
	$(BIN)/python -m pytest -m slow --numprocesses auto --dist worksteal

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

torch: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,torch]'

peers: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,peers]'

dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist

bench: $(READY)
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/uplink.py
	$(BIN)/python benchmarks/per_example.py
	$(BIN)/python benchmarks/air.py
	$(BIN)/python benchmarks/langevin.py
	$(BIN)/python benchmarks/network.py
	$(BIN)/python benchmarks/secure_sum.py
	$(BIN)/python benchmarks/populations.py
	$(BIN)/python benchmarks/hosts.py

clean:
	rm -rf $(VENV) build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .compiled

architecture: $(READY)
	$(BIN)/python tools/architecture.py

# Strict: a link that leads nowhere fails. The variable keeps the theme from advertising what comes after it.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

gallery: $(READY)
	$(BIN)/python tools/gallery.py
