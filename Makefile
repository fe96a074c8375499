# make help      these lines
# make demo      a student's path against everything, as a table with times
# make up        the same services for your browser, by `jupyter gpu lab` (PORT=8000: of 6 in a row; STATE=state: their folder)
# make test      the tests but those that take long: says whether a change is good
# make quick     the tests that start no process, in a minute
# make coverage  the same, and how much of the Python code they reach, by file
# make full      all tests, and all of `make conformance`; its first run installs PyTorch (5.5 GiB)
# make ready     sets up what these need, and runs none
# make ready-full       what `full` needs too: PyTorch
# make conformance      test suites that others wrote, on the software GPU (ARGS="cudadrv/test_linker.py": a part)
# make frameworks       PyTorch, JAX and TensorFlow, for their tests (gigabytes; JAX_PYTHON=python3.12: the one for JAX)
# make frameworks-all   the three in one environment, for the tests of that (JAX_PYTHON too)
# make operators        PyTorch's whole database of operators, straight and forwarded (some minutes)
# make gpu-conformance  the same on this machine's NVIDIA GPU
# make sanitizers       the native code under sanitizers
# make lower-bounds     the quick tests, and a kernel out of a wheel, with the lowest versions that are allowed
# make bench            the benchmarks
# make docs             the documentation as a site, in build/site
# make wheel            what others install, in build/wheel (WHEELS=build/wheel: another folder)
# None needs root. The first run sets up .venv (PYTHON=python3: 3.11 or newer), the native code and the proxy.
# Of quick, test and full: TEST_PROCESSES=2 beside each other, PYTEST_ARGS="-x tests/pool".
PYTHON ?= python3
PORT ?= 8000
STATE ?= state
WHEELS ?= build/wheel
PYTEST_ARGS ?=
TEST_PROCESSES ?= 2

BIN := .venv/bin
PY := $(BIN)/python
NATIVE := $(CURDIR)/build/native
NPM_CI := npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
TESTS = $(PY) -m pytest -n $(TEST_PROCESSES)
LAB := gpu_kernels/labextension
READY := .venv/.ready remoting/lib/.built hub_config/proxy/node_modules/.ready $(LAB)/node_modules/.ready
NATIVE_SOURCES := $(shell find remoting/native -type f -not -name '*.md' 2>/dev/null)

.PHONY: help demo up quick coverage test full ready ready-full conformance frameworks frameworks-all operators gpu-conformance sanitizers bench docs wheel lower-bounds
.DELETE_ON_ERROR:

help:
	@sed -n '/^[^#]/q; s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

demo: $(READY)
	@$(PY) -m gpu_kernels.hub_config.lab

up: $(READY)
	@$(BIN)/jupyter-gpu lab --no-browser --state "$(STATE)" --port "$(PORT)"

# The tiers: see tests/tiers.py.
quick: .venv/.ready
	@$(TESTS) -m quick $(PYTEST_ARGS)

# Of what the other tiers start in processes of their own nothing is counted: this is the quick tier's reach.
coverage: .venv/.ready
	@$(PY) -m coverage run -m pytest -q -m quick $(PYTEST_ARGS)
	@$(PY) -m coverage report

test: ready
	@$(TESTS) -m "not slow" $(PYTEST_ARGS)

full: ready-full
	@GPU_KERNELS_CONFORMANCE=1 $(TESTS) $(PYTEST_ARGS)

ready: $(READY) build/nbgrader/.ready build/docs/.ready build/packaging/.ready

# A warning (a link that leads nowhere, a page that is on no menu) is an error.
docs: build/docs/.ready
	@NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --quiet --strict && echo "build/site/index.html"

# The native code is what `make` has built. auditwheel gives the wheel the tag that its libraries allow here, and puts no
# other library into it: a driver of NVIDIA's would be a second one in a process, so it is none of ours to bring.
# In WHEELS only what has its name makes way, in our own folder every older one.
PARTS := build/wheel-parts
wheel: $(READY) build/packaging/.ready
	@rm -rf $(PARTS)
	@$(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	  -C build-dir=$(NATIVE) -w $(PARTS)/unrepaired .
	@PATH="$(CURDIR)/build/packaging/bin:$$PATH" auditwheel repair --plat auto --strip --exclude 'libcuda.so*' --exclude 'libnvidia-*.so*' \
	  -w $(PARTS) $(PARTS)/unrepaired/*.whl 2>$(PARTS)/auditwheel.log || { cat $(PARTS)/auditwheel.log >&2; exit 1; }
	@$(PY) -m benchmarks.wheel $(PARTS)/gpu_kernels-*.whl
	@made=$$(cd $(PARTS) && ls gpu_kernels-*.whl); mkdir -p "$(WHEELS)"; \
	  [ "$(WHEELS)" != build/wheel ] || rm -f build/wheel/gpu_kernels-*.whl; \
	  mv "$(PARTS)/$$made" "$(WHEELS)/" && echo "pip install \"$(WHEELS)/$$made[lab]\""

# With the lowest version that pyproject.toml allows of each requirement, and what tests need beside those.
LOWEST := build/lower-bounds
UV := build/packaging/bin/uv pip
lower-bounds: $(READY) build/packaging/.ready
	@rm -rf $(LOWEST)
	@build/packaging/bin/uv venv --quiet --seed --python $(PY) $(LOWEST)
	@$(UV) compile --quiet --resolution lowest-direct --all-extras --python $(LOWEST)/bin/python --no-header \
	  -o $(LOWEST)/lowest.txt pyproject.toml
	@sed -n '/^# development/,$$p' requirements/all.in > $(LOWEST)/tools.in
	@$(UV) install --quiet --python $(LOWEST)/bin/python -r $(LOWEST)/lowest.txt -r $(LOWEST)/tools.in
	@echo "$(CURDIR)" > "$$(echo $(LOWEST)/lib/python3*/site-packages)/project.pth"
	@$(LOWEST)/bin/python -m pytest -n $(TEST_PROCESSES) -m quick $(PYTEST_ARGS)
	@$(LOWEST)/bin/python -m pytest $(PYTEST_ARGS) tests/repository/test_installed_wheel.py

# PyTorch comes from the package index and is large: where it cannot be had, its tests skip and say so.
ready-full: ready
	@$(MAKE) --no-print-directory frameworks-pytorch || \
	  echo "PyTorch is not here: its tests will skip" >&2

# The tests take two sample inputs of each operator and type; this takes all, and prints how many agree.
operators: $(READY) frameworks-pytorch
	@GPU_KERNELS_OPERATOR_SAMPLES=0 $(TESTS) -rP tests/frameworks/pytorch/test_operators.py $(PYTEST_ARGS)

# Test suites that others wrote, on the software GPU; ARGS="cudadrv/test_linker.py" runs a part of numba's. NVIDIA's samples
# run where somebody has fetched them.
conformance: $(READY)
	@$(PY) -m tests.conformance $(ARGS)
	@if [ -d build/cuda-samples ]; then $(PY) -m tests.conformance.samples; else $(PY) -m tests.conformance.samples || true; fi
	@GPU_KERNELS_CONFORMANCE=1 $(PY) -m pytest -q tests/conformance/test_course.py tests/conformance/test_pytorch.py

# The same on this machine's NVIDIA GPU, straight and forwarded; without one it says so and does nothing.
gpu-conformance: $(READY)
	@$(PY) -m tests.conformance.on_a_gpu

# The native code under sanitizers: a build for each (long, once), and on it what is most likely to show something.
sanitizers: .venv/.ready
	@$(PY) -m tests.sanitizers address
	@$(PY) -m tests.sanitizers thread

# Those with processes that are killed or attacked take the longest, and come last.
BENCHMARKS := forwarding kernel_start kernel_import queue pool lab_pages softgpu softgpu_checks machine_code placement simulate lab_load kills siege worker_start run_memory frameworks libraries classroom

bench: $(READY)
	@for name in $(BENCHMARKS); do echo; echo "== $$name"; $(PY) -m benchmarks.$$name || exit 1; done

.venv/.ready: requirements/all.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, and $(PYTHON) is not; say which: make PYTHON=python3.12" >&2; exit 1; }
	@echo "setting up .venv (once; some minutes)"
	@$(PYTHON) -m venv .venv
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/all.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . \
	  -C wheel.cmake=false -C editable.mode=inplace
	@touch $@

# nbgrader, for the tests of grading runs: in a folder of its own, since it would change every Jupyter server of .venv.
build/nbgrader/.ready: requirements/nbgrader.txt .venv/.ready
	@rm -rf build/nbgrader
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target build/nbgrader -r $<
	@touch $@

# What makes the site, and what makes the wheel fit other machines, in environments of their own: nothing else needs it.
build/docs/.ready build/packaging/.ready: build/%/.ready: requirements/%.txt .venv/.ready
	@rm -rf $(@D)
	@$(PY) -m venv $(@D)
	@$(@D)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

# Frameworks for tests/frameworks, each in an environment of its own: what they want excludes what others want.
JAX_PYTHON ?= python3.12
build/frameworks-jax/.ready build/frameworks-all/.ready: FRAMEWORK_PYTHON = $(JAX_PYTHON)
build/frameworks-tensorflow/.ready: FRAMEWORK_PYTHON = $(PYTHON)

build/frameworks-pytorch/.ready: FRAMEWORK_PYTHON = $(PYTHON)

frameworks: build/frameworks-jax/.kernels build/frameworks-tensorflow/.kernels frameworks-pytorch

# PyTorch finds this package among its own: .venv comes behind it. What is compiled for it is for the package too.
# Where NVIDIA's libraries are not installed, PyTorch is imported with ours.
.PHONY: frameworks-pytorch
frameworks-pytorch frameworks-all: frameworks-%: build/frameworks-%/.kernels remoting/lib/.built
	@echo "import site; site.addsitedir('$$(echo $(CURDIR)/.venv/lib/python3*/site-packages)')" \
	  > "$$(echo $(<D)/lib/python3*/site-packages)/project.pth"
	@LD_LIBRARY_PATH="$(CURDIR)/remoting/lib/libraries" $(<D)/bin/python -m gpu_kernels.pytorch.build remoting/lib/pytorch

.PRECIOUS: build/frameworks-%/.ready
# What pip fetches lies beside what it installs until it is done. A part of a framework is of no use.
FRAMEWORK_KIB := 10485760
build/frameworks-%/.ready: requirements/frameworks-%.txt
	@mkdir -p build && df -Pk build | awk 'NR == 2 { exit $$4 < $(FRAMEWORK_KIB) }' || \
	  { echo "$* is not installed: it wants 10 GiB free where $(CURDIR) is" >&2; exit 1; }
	@echo "installing $* in $(@D) (once; some minutes)"
	@rm -rf $(@D)
	@$(FRAMEWORK_PYTHON) -m venv $(@D) && \
	  $(@D)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $< || \
	  { rm -rf $(@D); echo "$* could not be installed" >&2; exit 1; }
	@touch $@

# Notebooks run in each: a kernel's part of this package's requirements, and the package as it lies here.
build/frameworks-%/.kernels: requirements/kernels.txt build/frameworks-%/.ready
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@echo "$(CURDIR)" > "$$(echo $(@D)/lib/python3*/site-packages)/project.pth"
	@touch $@

remoting/lib/.built: $(NATIVE_SOURCES) .venv/.ready
	@command -v c++ >/dev/null || { echo "a C++ compiler is needed (c++, from GCC 12 or newer)" >&2; exit 1; }
	@echo "building the native code"
	@$(BIN)/cmake -S remoting/native -B $(NATIVE) -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=WARNING \
	  -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython3_EXECUTABLE=$(CURDIR)/$(PY) >/dev/null
	@$(BIN)/cmake --build $(NATIVE) -- --quiet
	@$(BIN)/cmake --install $(NATIVE) --component runtime --prefix $(CURDIR)/remoting/lib >/dev/null
	@touch $@

hub_config/proxy/node_modules/.ready: hub_config/proxy/package-lock.json .venv/.ready
	@echo "fetching JupyterHub's proxy"
	@cd hub_config/proxy && PATH="$(CURDIR)/$(BIN):$$PATH" $(NPM_CI) >/dev/null
	@touch $@

# The lab runs without it too, so what fails here (no network) is said, and tried again next time.
$(LAB)/node_modules/.ready: $(wildcard $(LAB)/*.js* $(LAB)/build.mjs $(LAB)/src/* $(LAB)/style/*) .venv/.ready
	@echo "building JupyterLab's extension"
	@cd $(LAB) && export PATH="$(CURDIR)/$(BIN):$$PATH" && \
	  { cmp -s package-lock.json node_modules/.lock || $(NPM_CI) >/dev/null; } && \
	  cp package-lock.json node_modules/.lock && npm run --silent build && touch node_modules/.ready || \
	  echo "JupyterLab's extension was not built: the status bar will not show slices, everything else works" >&2
