# Commands for daily use. CMake does the build: see CMakePresets.json.
.DEFAULT_GOAL := help
.PHONY: help deps demo test test-long test-sanitized gpu-pack package assemble-all format format-check tidy check

help:            ## this list
	@sed -n 's/^\([a-z-]*\): .*## \(.*\)/  make \1\t\2/p;s/^\([a-z-]*\):  *## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

deps:            ## install what the build needs (Debian 12 and 13; others: lists the packages)
	@tools/dev/deps.sh

demo: deps       ## build the library and the program, and show a kernel from lambda to result
	@tools/dev/build.sh ci tegula_program
	@build/ci/tools/tegula demo

test: deps       ## build the tests, too, and run all but the GPU's and the long ones
	@tools/dev/build.sh ci
	@tools/dev/test.sh ci -LE 'gpu|long'

test-long: deps  ## 20,000 random programs, 1,000,000 inputs of parsers, all schemes of experts: hours on two cores
	@tools/dev/build.sh ci
	@tools/dev/test.sh ci -L long

test-sanitized: deps ## every unit and file test under ASan and UBSan, threads under TSan: an hour on two cores
	@tools/dev/build.sh asan-ubsan unit_tests filetests
	@tools/dev/test.sh asan-ubsan -L 'unit|filetest' -LE long
	@tools/dev/build.sh tsan unit_tests differential_tests
	@tools/dev/test.sh tsan -LE 'gpu|long' -R 'storms|runtime|dsl_(launch|call_plan)|sim_run|eval_(kernel|race)'

gpu-pack: deps   ## .gpu/: what a GPU machine needs to run the GPU tests and the program
	@tools/dev/gpu_pack.sh

.PHONY: docs
docs:            ## docs/api/: a page for each public header, from its docstrings
	@tools/dev/api_pages.py

package: deps    ## build/package/: an archive of the libraries and the program, and a Python wheel
	@tools/dev/package.sh

.PHONY: compare-pack
compare-pack: deps ## .compare/COMMIT/: the libraries of this commit, for bench/compare.py
	@tools/dev/gpu_pack.sh --libraries .compare/$$(git rev-parse --short HEAD)

assemble-all: deps ## assemble every configuration of the kernel library (needs ptxas)
	@tools/dev/build.sh ci assemble_tests
	@TEGULA_TEST_ASSEMBLE=all tools/dev/test.sh ci -L assemble -E assemble_configurations_test
	@TEGULA_TEST_ASSEMBLE=all TEGULA_CACHE=off build/ci/tests/assemble_tests --file=assemble/configurations_test.cpp # longer than ctest's time limit

format:          ## format every C++ file
	@tools/dev/format.sh

format-check:
	@tools/dev/format.sh --check

tidy: deps       ## run clang-tidy's short list over the tree
	@tools/dev/tidy.sh

check:           ## the checks of .ci/run that need no build
	@tools/dev/check.sh
