# latlab: the two commands are `make demo` and `make test`; everything else is for those who work on it.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS ?= market,frames,tui,brokers,simulate,cxx,address,code,python,fft,opencl,cluster,test,lint
JOBS   ?= $(shell nproc)
PYTEST_ARGS ?=
# Each process begins with a stretch of the tests, and takes from the other's end when it has done: a file's tests stay
# together, so what its fixtures build is built once, and those that compute run beside those that wait.
SPREAD := -n $(JOBS) --dist worksteal
CLANGXX ?= clang++
FUZZ_SECONDS ?= 300
# Warnings are errors where this is ON, as in .ci/run; a stranger's newer compiler may warn of what ours doesn't.
WERROR ?= OFF

SOURCES := $(shell find src native include cmake CMakeLists.txt pyproject.toml README.md LICENSE -type f -not -name '*.pyc' 2>/dev/null)
CXX_FILES = $(shell find include native benchmarks examples 2>/dev/null -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.c')

.PHONY: help changelog core demo test test-all test-beside test-alone test-core test-types test-imports test-sanitizers fuzz fuzz-readers fuzz-smoke lint format stubs docs proof bench clean install
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Many containers tell Python to keep no byte code. Then each process that a test starts would compile all that it
# imports, which takes longer than what most of them do.
unexport PYTHONDONTWRITEBYTECODE

# Four stamps: what builds the package; what a user's install needs; what the tests need besides, which takes long and
# changes seldom; and the package, which changes often. It is compiled while the others are fetched. Byte code is made
# of what is imported, when it is.
PIP := MAKEFLAGS= $(BIN)/python -m pip install --quiet --no-compile
$(VENV)/.tools: pyproject.toml $(VENV)/.created
	$(BIN)/python tools/requirements.py --build > $(VENV)/requirements-build.txt
	$(PIP) -r $(VENV)/requirements-build.txt
	@touch $@

$(VENV)/.core: $(VENV)/.tools
	$(BIN)/python tools/requirements.py > $(VENV)/requirements-core.txt
	$(PIP) -r $(VENV)/requirements-core.txt
	@touch $@

$(VENV)/.dependencies: $(VENV)/.core
	$(BIN)/python tools/requirements.py $(EXTRAS) > $(VENV)/requirements.txt
	$(PIP) -r $(VENV)/requirements.txt
	@touch $@

$(VENV)/.installed: $(SOURCES) $(VENV)/.tools
	PATH="$(abspath $(BIN)):$$PATH" $(PIP) --no-build-isolation --no-deps --force-reinstall -Cbuild-dir=build/core -Ccmake.define.LATLAB_WERROR=$(WERROR) .
	@touch $@

core: ## build and install into .venv, without the extras
	@$(MAKE) --no-print-directory -j2 $(VENV)/.installed $(VENV)/.core

install: ## the same with the extras, and what the tests need
	@$(MAKE) --no-print-directory -j2 $(VENV)/.installed $(VENV)/.dependencies

# The saturated case: make demo ARGS="--slow book=30000 --budget 75"
demo: ARGS ?= --apply 50 --budget 40
demo: core ## run a trading pipeline, find what makes its tail, forecast a fix, apply it, and measure it
	$(BIN)/latlab diagnose $(ARGS) || test $$? -eq 3  # 3: measured, and the output says why not to trust it

# The core's own tests are in `test-all` (and under sanitizers): compiling them takes half as long as the package.
test: install ## the tests of a few minutes: unit, files, and a live smoke test of each tool
	$(BIN)/python -m pytest $(SPREAD) $(PYTEST_ARGS) -m "not long" tests/unit tests/files
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m smoke $(shell grep -l mark.smoke tests/live/*.py)  # against a live machine: one at a time

test-all: test test-core test-types test-imports ## every test
	@$(MAKE) --no-print-directory test-beside
	@$(MAKE) --no-print-directory test-alone

# One a CPU: with more some that wait for a time-out of their own failed.
test-beside: install ## of the tests that `make test` leaves out those that run beside others
	$(BIN)/python -m pytest $(SPREAD) $(PYTEST_ARGS) -m "long or (side_by_side and not smoke)" tests/unit tests/files tests/live

test-alone: install ## and those that want the machine for themselves
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not smoke and not side_by_side" tests/live

# In the folder of the installed package: its core is compiled once, and is what the tests are linked with.
test-core: $(VENV)/.installed $(VENV)/.dependencies
	@mkdir -p build
	@$(BIN)/cmake -S . -B build/core -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DLATLAB_TESTS=ON -DLATLAB_WERROR=$(WERROR) > build/tests.log 2>&1 || { cat build/tests.log; exit 1; }
	$(BIN)/cmake --build build/core -j $(JOBS) --target latlab-core-tests latlab-fuzz-counters
	build/core/latlab-core-tests
	build/core/latlab-fuzz-counters 5

test-types: install
	$(BIN)/python -m mypy

test-imports: install
	$(BIN)/lint-imports

# That no file lives on what another includes is seen by `make lint`, which reads each by itself. Debug builds in a quarter of the time that RelWithDebInfo takes, and finds the same; that one has the inlined code.
SANITIZED_BUILD ?= RelWithDebInfo
test-sanitizers: $(VENV)/.dependencies ## the core's tests under ASan+UBSan, then TSan
	@for s in address,undefined thread; do \
	  folder=build/sanitize-$${s%%,*}-$(SANITIZED_BUILD) && \
	  $(BIN)/cmake -S . -B $$folder -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	    -DCMAKE_BUILD_TYPE=$(SANITIZED_BUILD) -DLATLAB_TESTS=ON -DLATLAB_SANITIZE=$$s >/dev/null && \
	  $(BIN)/cmake --build $$folder -j $(JOBS) --target latlab-core-tests && \
	  TSAN_OPTIONS=halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $$folder/latlab-core-tests || exit 1; \
	done

fuzz-readers: install test-core ## every reader of files against spoiled ones: 10^8 bytes each of them, at most FUZZ_SECONDS
	build/core/latlab-fuzz-counters $(FUZZ_SECONDS)
	$(BIN)/python tools/fuzz_readers.py --bytes 1e8 --seconds $(FUZZ_SECONDS)

# What lands is not decided by dice: the seed stands here, and `make fuzz-readers` throws them.
FUZZ_SEED ?= 1
fuzz-smoke: install test-core ## every reader of files against spoiled ones, about a minute in all
	build/core/latlab-fuzz-counters 6
	$(BIN)/python tools/fuzz_readers.py --bytes inf --seconds 4 --jobs $(JOBS) --seed $(FUZZ_SEED)

fuzz: install ## every reader of market data under libFuzzer and sanitizers, five minutes (clang)
	$(BIN)/cmake -S . -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_CXX_COMPILER=$(CLANGXX) -DLATLAB_FUZZ=ON -DLATLAB_SANITIZE=address,undefined,fuzzer-no-link >/dev/null
	$(BIN)/cmake --build build/fuzz -j $(JOBS) --target latlab-fuzz-market
	@mkdir -p build/fuzz/corpus
	$(BIN)/latlab market generate --seed 1 --messages 300 --symbols 3 -o build/fuzz/day
	(printf '\000\200'; cat build/fuzz/day) > build/fuzz/corpus/day  # BinaryFILE, torn in the middle
	build/fuzz/latlab-fuzz-market -max_total_time=$(FUZZ_SECONDS) -timeout=10 -artifact_prefix=build/fuzz/ build/fuzz/corpus

lint: install ## ruff, mypy, import-linter, clang-format, clang-tidy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	@$(BIN)/cmake -S . -B build/tidy -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DLATLAB_TESTS=ON -DLATLAB_UNITY=OFF >/dev/null
	$(BIN)/python tools/tidy.py $(BIN)/clang-tidy build/tidy

format: $(VENV)/.dependencies ## reformat everything
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)

stubs: install ## write the compiled modules' type stubs again
	$(BIN)/python tools/stubs.py src/latlab/_core

docs: install ## the documentation site and the man pages, in build/site and build/man
	$(BIN)/python tools/requirements.py docs > $(VENV)/requirements-docs.txt
	$(BIN)/python -m pip install --quiet -r $(VENV)/requirements-docs.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/python tools/man.py build/man
	@echo "pages: build/site/index.html; with search: $(PYTHON) -m http.server -d build/site"

bench: install ## every benchmark, in ratios
	$(BIN)/python -m benchmarks

changelog: $(VENV)/.created ## CHANGELOG.md from the fragments in changelog.d, which are removed: make changelog VERSION=1.0.0; again: adds to it
	$(BIN)/python tools/requirements.py release > $(VENV)/requirements-release.txt
	$(BIN)/python -m pip install --quiet -r $(VENV)/requirements-release.txt
	$(BIN)/python tools/changelog.py $(VERSION)

proof: install ## the long series of planted bottlenecks (hours)
	$(BIN)/python -m benchmarks.queues_threads
	$(BIN)/python -m benchmarks.proof
	$(BIN)/python -m benchmarks.proof --forecasts 11 --rounds 1

clean: ## remove everything that was built
	rm -rf build $(VENV)
