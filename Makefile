# The commands a person types. The build itself is CMake's: see CMakePresets.json.
.DEFAULT_GOAL := help
.PHONY: help deps demo test test-long gpu-pack assemble-all format format-check tidy check

help:            ## this list
	@sed -n 's/^\([a-z-]*\): .*## \(.*\)/  make \1\t\2/p;s/^\([a-z-]*\):  *## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

deps:            ## install what the build needs (Debian 12, Ubuntu 24.04; others: lists the packages)
	@tools/dev/deps.sh

demo: deps       ## build the release and show a kernel from lambda to result
	@tools/dev/build.sh release tegula_program
	@build/release/tools/tegula demo

test: deps       ## build everything with assertions and run all tests but the GPU's
	@tools/dev/build.sh ci
	@tools/dev/test.sh ci -LE 'gpu|long'

test-long: deps  ## 20,000 random programs and 1,000,000 inputs of parsers, half an hour of two cores
	@tools/dev/build.sh ci fuzz_parsers_test fuzz_stored_kernel_test fuzz_conditions_test fuzz_random_programs_test
	@tools/dev/test.sh ci -L long

gpu-pack: deps   ## .gpu/: what a GPU machine needs to run the GPU tests and the program
	@tools/dev/gpu_pack.sh

.PHONY: compare-pack
compare-pack: deps ## .compare/COMMIT/: the libraries of this commit, for bench/compare.py
	@tools/dev/gpu_pack.sh --libraries .compare/$$(git rev-parse --short HEAD)

assemble-all: deps ## assemble every configuration of the kernel library (needs ptxas)
	@tools/dev/build.sh ci
	@tools/dev/test.sh ci -L assemble -E assemble_configurations_test
	@TEGULA_TEST_ASSEMBLE=all TEGULA_CACHE=off build/ci/tests/assemble_configurations_test # longer than ctest lets a test run

format:          ## format every C++ file
	@tools/dev/format.sh

format-check:
	@tools/dev/format.sh --check

tidy: deps       ## run clang-tidy's short list over the tree
	@tools/dev/tidy.sh

check:           ## the checks of .ci/run that need no build
	@tools/dev/check.sh
