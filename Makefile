# The commands of this checkout.  Each installs its requirements in .venv; `make help` lists the commands.
# They need python3 (3.11 or later) with venv, Python's C headers and a C compiler, and report what is missing.

PYTHON ?= python3
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo bench test quick install-test crash flips tamper seal-memory canaries soak stress cluster-test model commitlog-golden jpos asan ubsan tsan lint format-docs docs wheel clean
MAKEFLAGS += --no-builtin-rules

# With these, .venv's Python would import modules of another one.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV

# Check for Python, which then checks for the rest (native/check_machine.py); then set up .venv with the named extras.
set_up = @command -v $(PYTHON) >/dev/null || \
	{ echo 'binlog: this machine lacks $(PYTHON) (Debian package: python3)' >&2; exit 1; }; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo 'binlog: this machine lacks Python 3.11 or later: $(PYTHON) is older (Debian package: python3)' >&2; exit 1; }; \
	$(PYTHON) -E -s -B native/make_venv.py

# loadgroup: tests that share something expensive, such as a Spark session, name a group and run on one worker.
# No worker is replaced, because pytest-xdist 3.8 with groups would silently wait forever for the new one.
# The sources are compiled first, because otherwise each of hundreds of processes would compile them again, which takes
# half of a command's time, or write the compiled files while a test watches the disk.  pytest compiles its tests and its
# plugins itself, once, unless PYTHONDONTWRITEBYTECODE is set.
pytest = .venv/bin/python -m compileall -q -j 0 -x '/test_[^/]*$$' binlog pyspark_binlog stress tests && \
	env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m pytest --numprocesses auto --dist loadgroup --max-worker-restart 0

help:
	@echo 'make demo         the main job, end to end (ARGS="--help" shows its options)'
	@echo 'make bench        binlog and its alternatives, measured side by side (ARGS="--help" shows its options)'
	@echo 'make test         all tests except those of "make install-test", on every core (ARGS= goes to pytest)'
	@echo 'make quick        the tests without Spark and without the slow ones (ARGS= goes to pytest)'
	@echo 'make install-test the README in a fresh clone, the wheel, the source archive, the whole benchmark (some minutes)'
	@echo 'make crash        power cuts, kills, faults and damage, by the thousand (DURATION_S=60 SEED= ARGS="--help")'
	@echo 'make flips        every bit next to the records flipped, one at a time (half an hour or more; ARGS="--help")'
	@echo 'make tamper       a thousand changes of sealed logs, each of which "binlog seal verify" must find'
	@echo 'make seal-memory  the memory that it takes to seal and to verify a log of 10 GB (ARGS="--help")'
	@echo 'make canaries     check that "make crash" finds every seeded bug, with five seeds each (some three hours)'
	@echo 'make soak         an hour of work, after which nothing may have grown (DURATION_S=)'
	@echo 'make stress       Spark follows appending processes, and is killed again and again; a sealed log in use is verified for an'
	@echo '                  hour (DURATION_S=); random programs over a journal and a page store'
	@echo 'make cluster-test a local Spark master and two workers, killed during jobs (some minutes; ARGS="--help")'
	@echo 'make model        the models of the protocol and of consumer groups (ARGS="--help"), then the one for Spin, which must be installed'
	@echo 'make commitlog-golden  exchange stores with the real RocketMQ (needs Maven; ARGS=--write: write the golden files again)'
	@echo 'make jpos         ingests together with the real binlog module (JPOS_SOURCE=a checkout of jPOS-EE; needs a Java compiler)'
	@echo 'make asan         the tests that reach the C, under the address sanitizer (make ubsan: undefined behaviour)'
	@echo 'make tsan         writers as threads, under the thread sanitizer'
	@echo 'make lint         mypy --strict and ruff'
	@echo 'make format-docs  generate docs/format.md and the C constants from the tables in binlog/format, docs/cli.md from the commands'
	@echo 'make docs         the documents and the API reference as a site in build/site'
	@echo 'make wheel        build the source archive and the wheel into dist (ARGS="--platform aarch64": with a cross compiler)'
	@echo 'make clean        remove .venv and all build products'

demo:
	$(set_up) spark
	@.venv/bin/python -m stress.demo $(ARGS)

bench:
	$(set_up) bench seal spark
	@.venv/bin/python -m stress.bench $(ARGS)

test:
	$(set_up) test lint spark bench
	@$(pytest) -m 'not install' $(ARGS)

install-test:
	$(set_up) test lint spark bench docs
	@$(pytest) -m 'install or turn' $(ARGS)

quick:
	$(set_up) test lint bench
	@echo 'binlog: these are the tests without Spark and without the slow ones; "make test" runs all'
	@$(pytest) -m 'not spark and not slow and not install' --in-memory --hypothesis-profile quick -o 'testpaths=tests/repo tests/unit' $(ARGS)

# DURATION_S and SEED are passed in the environment.
crash: export DURATION_S := $(DURATION_S)
crash: export SEED := $(SEED)
crash:
	$(set_up) seal
	@.venv/bin/python -m stress.crash $(ARGS)

flips:
	$(set_up)
	@.venv/bin/python -m stress.crash.flips $(ARGS)

tamper:
	$(set_up) seal
	@.venv/bin/python -m stress.tamper $(ARGS)

seal-memory:
	$(set_up) seal
	@.venv/bin/python -m stress.seal_memory $(ARGS)

canaries:
	$(set_up) seal
	@.venv/bin/python -m stress.crash.canaries $(ARGS)

soak: export DURATION_S := $(DURATION_S)
soak:
	$(set_up)
	@.venv/bin/python -m stress.soak $(ARGS)

stress: export DURATION_S := $(DURATION_S)
stress:
	$(set_up) spark test
	@.venv/bin/python -m stress.pipeline $(ARGS)
	@.venv/bin/python -m stress.sealing
	@$(pytest) -m "" --hypothesis-profile stress tests/unit/journal/test_model.py tests/unit/pagestore/test_model.py

cluster-test:
	$(set_up) spark
	@.venv/bin/python -m stress.cluster $(ARGS)

model:
	$(set_up)
	@.venv/bin/python -m stress.model $(ARGS)
	@.venv/bin/python -m stress.group_model $(ARGS)
	@.venv/bin/python -m stress.model.spin

commitlog-golden:
	$(set_up) test
	@.venv/bin/python -m tests.interop.rocketmq $(ARGS)

jpos:
	$(set_up) test
	@.venv/bin/python -m tests.interop.jpos_module '$(or $(JPOS_SOURCE),$(error make jpos JPOS_SOURCE=a checkout of jPOS-EE))' $(ARGS)

asan:
	$(set_up) test
	@.venv/bin/python -m stress.sanitize address $(ARGS)

ubsan:
	$(set_up) test
	@.venv/bin/python -m stress.sanitize undefined $(ARGS)

tsan:
	$(set_up)
	@.venv/bin/python -m stress.sanitize thread $(ARGS)

lint:
	$(set_up) test lint
	@.venv/bin/python -m mypy
	@.venv/bin/python -m ruff check

format-docs:
	$(set_up) test lint
	@.venv/bin/python -m binlog.format --write
	@.venv/bin/python -m binlog.cli.document --write

# Without the notice that MkDocs will have a successor.
docs:
	$(set_up) docs
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --quiet
	@echo 'binlog: the site begins at build/site/index.html; its search works only through a web server:'
	@echo '  python3 -m http.server --directory build/site --bind 127.0.0.1'

wheel:
	$(set_up) wheel
	@.venv/bin/python native/make_wheel.py $(ARGS)

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis binlog/_*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
