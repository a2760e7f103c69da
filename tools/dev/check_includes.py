#!/usr/bin/env python3
"""Checks that includes follow the one line of dependencies and the rules of public headers, and that none is missing.

support <- ir <- codegen <- runtime <- dsl <- autotune <- kernels <- {tools, examples, bench, tests}:
a folder may include its own headers and those of folders to its left. Public headers include std and each other only;
the header for C also includes the C library's and DLPack's. LLVM's headers stay in codegen/llvm. No include contains
`../`. Kernels and examples use the public language only. A file that uses a name of STD includes its header, directly
or through headers of ours, because what standard headers include differs between libraries and versions. An argument
selects a tree other than that of this file.
"""
import functools
import pathlib
import re
import subprocess
import sys

LAYERS = ["support", "ir", "codegen", "runtime", "dsl", "autotune", "kernels"]
C_HEADER, FOR_C = "dsl/include/tegula.h", ("stddef.h", "stdint.h", "dlpack/dlpack.h")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.S)
STD_NAME = re.compile(r"\bstd::((?:ranges|views|chrono|filesystem|this_thread|numbers|pmr)::\w+|\w+)")
# Names of one header each; those that several headers or most of them declare (size_t, move, swap, hash) are not listed.
STD = {
    "algorithm": r"(all|any|none)_of clamp (copy|count|find)(_if|_n)? equal fill(_n)? (lower|upper)_bound (max|min|minmax)_element"
                 r" minmax nth_element (pop|push)_heap replace(_if)? reverse shuffle sort stable_\w+ unique ranges::\w+",
    "array": "array", "atomic": r"atomic(_ref)? memory_order_\w+", "barrier": "barrier",
    "bit": r"bit_(cast|ceil|floor|width) count[lr]_(one|zero) endian has_single_bit popcount", "bitset": "bitset",
    "cctype": "is(alnum|alpha|digit|space|xdigit) to(lower|upper)", "charconv": "(from|to)_chars", "chrono": r"chrono::\w+",
    "cmath": r"a?(cos|sin|tan)h? atan2 cbrt ceil copysign erfc? exp(2|m1)? fabs fdim floor fm(a|ax|in|od) frexp hypot ilogb"
             r" is(finite|inf|nan) ldexp l?lround lgamma log(10|1p|2)? nanf? nearbyint nextafter pow remainder rint round signbit"
             r" sqrt tgamma trunc",
    "concepts": "convertible_to floating_point integral invocable same_as", "condition_variable": "condition_variable",
    "cstdint": r"u?int\d+_t u?intptr_t", "cstdio": "f(flush|open|printf|puts|read|write) printf puts setvbuf snprintf sscanf",
    "cstdlib": "abort aligned_alloc atexit calloc free getenv malloc strto(d|ll|ull) system", "cstring": r"mem(cmp|cpy|move|set) str\w?(cmp|cpy|error)",
    "deque": "deque", "exception": "current_exception exception_ptr rethrow_exception uncaught_exceptions",
    "filesystem": r"filesystem(::\w+)?", "fstream": "[io]fstream", "functional": r"bit_(and|or|xor) function greater less plus",
    "future": "async future promise", "initializer_list": "initializer_list", "iomanip": "set(precision|w)", "iostream": "cerr cin cout",
    "iterator": "back_inserter [io]streambuf_iterator", "limits": "numeric_limits", "list": "list", "map": "(multi)?map",
    "memory": "make_(shared|unique) (shared|unique|weak)_ptr", "mutex": "call_once once_flag (recursive_)?mutex (lock_guard|scoped_lock|unique_lock)",
    "numbers": r"numbers::\w+", "numeric": "accumulate gcd inner_product iota lcm partial_sum reduce", "optional": "make_optional nullopt optional",
    "queue": "priority_queue queue", "random": r"mt19937(_64)? random_device \w+_distribution", "ranges": r"views::\w+", "regex": r"s?regex\w* smatch",
    "set": "(multi)?set", "source_location": "source_location", "span": "span", "sstream": "[io]?stringstream",
    "stdexcept": "(domain|logic|runtime)_error invalid_argument out_of_range", "string": "string sto(d|i|ll|ul|ull) to_string",
    "string_view": "string_view", "thread": r"j?thread this_thread::\w+", "tuple": "apply tie tuple(_cat)?",
    "type_traits": r"conditional_t is_\w+_v remove_cvref_t", "unordered_map": "unordered_map", "unordered_set": "unordered_set",
    "variant": "get_if holds_alternative variant visit", "vector": "vector",
}
STD = [(re.compile("|".join(names.split())), header) for header, names in STD.items()]


def public_headers(root):
    """Returns the layer that installs "tegula/x.h"."""
    owners = {}
    for layer in LAYERS:
        base = root / layer / "include"
        for header in base.rglob("*.h"):
            owners[header.relative_to(base).as_posix()] = layer
    return owners


def fault(path, name, quoted, owners):
    """Returns the reason why `path` must not include `name`, or None."""
    here = path.parts[0]
    is_public = len(path.parts) > 1 and path.parts[1] == "include"
    owner = owners.get(name) or (name.split("/")[0] if "/" in name else None)
    ours = name in owners or owner in LAYERS or owner in ("tools", "bench", "tests", "examples")
    if name.startswith("../") or "/../" in name:
        return "contains ../; write the path from the repository root"
    if name.startswith("tegula/") and name not in owners:
        return "is not a public header of ours"
    if name.startswith(("llvm/", "llvm-c/")) and path.parts[:2] != ("codegen", "llvm"):
        return "LLVM's headers stay in codegen/llvm"
    if str(path) == C_HEADER and name in FOR_C:
        return None
    if is_public and name not in owners and ("/" in name or name.endswith(".h") or quoted):
        return "a public header includes std and public headers only"
    if here in LAYERS and ours:
        if owner not in LAYERS or LAYERS.index(owner) > LAYERS.index(here):
            return f"{here}/ must not include {owner}/"
    if str(path) == "kernels/argument_error.h" and name == "support/errors.h":
        return None  # the table of codes
    if here == "kernels" and ours and name not in owners and owner != "kernels":
        return "kernels use the public language only"
    if here == "examples" and ours and name not in owners:
        return "lessons use public headers only"
    return None


@functools.cache
def header_of(name):
    """Returns the header that declares std::`name`, or None if the table lacks it."""
    return next((header for pattern, header in STD if pattern.fullmatch(name)), None)


class Sources:
    """The texts of `files`, and what each includes, directly or through other files."""

    def __init__(self, root, files, owners):
        self.texts = {file: (root / file).read_text() for file in files if (root / file).exists()}
        self.owners = owners
        self.closures = {}

    def included(self, file):
        """Returns the names that `file` and the files of ours that it includes include."""
        if file not in self.closures:
            names = self.closures[file] = {m[2] for m in map(INCLUDE.match, self.texts[file].splitlines()) if m}
            for name in list(names):
                layer = self.owners.get(name)
                for path in (f"{layer}/include/{name}", name, f"{file.rpartition('/')[0]}/{name}"):
                    names |= self.included(path) if path in self.texts else set()
        return self.closures[file]

    def missing(self, file):
        """Returns the line, name and header of each first use of a header of STD that `file` does not include."""
        if {header_of(n) for n in STD_NAME.findall(self.texts[file])} - {None} <= self.included(file):
            return []
        code = NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), self.texts[file])
        uses = {}
        for match in STD_NAME.finditer(code):
            uses.setdefault(header_of(match[1]), (code.count("\n", 0, match.start()) + 1, match[1]))
        return [(*uses[h], h) for h in uses if h and h not in self.included(file)]


def main(root):
    owners = public_headers(root)
    files = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.def"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.split()
    sources = Sources(root, files, owners)
    faults = 0
    for file, text in sources.texts.items():
        path = pathlib.Path(file)
        if path.parts[0] not in LAYERS + ["tools", "examples", "bench", "tests"]:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            reason = match and fault(path, match[2], match[1] == '"', owners)
            if reason:
                print(f"{file}:{number}: {match[2]}: {reason}")
                faults += 1
        for number, name, header in sources.missing(file) if path.suffix != ".def" else ():
            print(f"{file}:{number}: std::{name}: include <{header}>")
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if sys.argv[1:] else __file__ + "/../../..").resolve()))
