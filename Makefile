# Each target does all its set-up itself: a virtual environment of its own with the exact versions of constraints.txt.
#
#   make test    style, types, tests: what has to pass before a commit
#   make versions  the tests whose outcome could depend on the version of Python
#   make demo    an agent is killed after the mail server took its mail, and resumed; needs no key and no network
#   make docs    build the documentation, strictly, into build/site
#   make wheel   build the wheel, and use it as a newcomer would
#   make crash   the long set of the crash tests: every point, every system call, every power cut, every planted fault
#   make faults  the same with all other tests of faults, and docs/faults.md drawn from their counts
#   make planted plant each fault of tests/planted in a copy of the source, and see a test fail
#   make fuzz    a thousand guided inputs for the transcript's check and repair, the same each time
#   make bench   what durability costs: one table of ratios to the floor of the disk (PEERS=1: of other savers too)
#   make design  draw the tables of DESIGN.md from the code again

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

# Servers that others wrote, for the tests of MCP; without npm these tests are skipped, which in CI is a failure.
SERVERS = build/mcp-servers/.ready

# The tests start thousands of programs, and each would compile the library again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test check tests versions demo docs wheel planted crash faults fuzz bench design clean

test: check tests

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

tests: $(VENV)/.ready $(SERVERS)
	$(BIN)/python -m coverage run -m pytest tests/core tests/transcript
	$(BIN)/python -m coverage report
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --ignore tests/core --ignore tests/transcript

versions: $(VENV)/.ready $(SERVERS)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile $(addprefix --ignore=tests/,crash cases docs demo examples transcript proof) $(TESTS)

demo: $(VENV)/.ready
	$(BIN)/python -m midstride.demo

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: $(VENV)/.ready
	$(BIN)/python scripts/try_wheel.py

planted: $(VENV)/.ready
	$(BIN)/python tests/planted/run.py

REPORT = $(CURDIR)/build/crash.jsonl
LONG = CRASH_REPORT=$(REPORT) MIDSTRIDE_CRASH=long $(BIN)/python
# Files of which the long set has more points than the sample in `make tests`.
MORE = $(addprefix tests/crash/test_,crowd.py syscalls.py power.py zombies.py twenty.py forks_and_pids.py late_threads.py) \
	$(addprefix tests/stores/test_,files.py fencing.py)

crash: $(VENV)/.ready
	rm -rf $(REPORT) && mkdir -p build
	$(LONG) -m pytest --crash=long --numprocesses auto tests/proof
	$(LONG) -m pytest --numprocesses auto --dist loadfile $(MORE)
	$(LONG) tests/planted/run.py

faults: crash
	$(LONG) -m pytest --numprocesses auto --dist loadfile tests/crash tests/cases $(addprefix --ignore=,$(MORE))
	$(BIN)/python scripts/draw_faults.py $(REPORT) docs/faults.md

# The same inputs each time, so that what one machine finds another finds too; FUZZ="-max_total_time=600" looks for new ones.
FUZZ = -seed=1 -runs=1000 -len_control=0

fuzz: $(VENV)/.fuzz
	PYTHONHASHSEED=0 $(BIN)/python fuzz/fuzz_transcript.py $(FUZZ)

bench: $(VENV)/.ready
	mkdir -p build/bench
	cd build/bench && PYTHONPATH=$(CURDIR)/benchmarks $(abspath $(BIN))/python -m speed $(BENCH)

design: $(VENV)/.ready
	$(BIN)/python scripts/draw_design.py

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "midstride needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev --editable .
	touch $@

$(SERVERS): tests/mcp_servers/package.json
	@mkdir -p $(@D) && cp $< $(@D)
	@if command -v npm >/dev/null; then \
		npm install --prefix $(@D) --no-package-lock --no-audit --no-fund --loglevel=error && touch $@; \
	else echo "npm is not on this machine: the tests with MCP servers from npm will be skipped" >&2; fi

$(VENV)/.docs: $(VENV)/.ready
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	touch $@

$(VENV)/.fuzz: $(VENV)/.ready
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --group fuzz
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
