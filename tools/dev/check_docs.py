#!/usr/bin/env python3
"""Checks the pages that readers read: README.md, CONTRIBUTING.md, docs/*.md, docs/language/*.md, docs/adr/*.md and the
links of docs/api, whose pages are written from headers.

- No line but a row of a table has more than 120 columns.
- An identifier in `code` (one with an underscore, `::` or an inner capital), and a path of ours, is in the tree.
- A relative link leads to a file.
- Each file of bench/results/sweeps has one row in the README there, and each name of a row has a file.

Code blocks are skipped: tests compile those in C++."""
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH = 120
PAGES = ["README.md", "CONTRIBUTING.md", *(str(p.relative_to(ROOT)) for d in ("docs", "docs/language", "docs/adr")
                                             for p in sorted((ROOT / d).glob("*.md")))]
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RECORDS = ("docs/hopper-matmul.md",)  # plans with the names of the time of their measurement
IDENTIFIER = re.compile(r"_|[a-z0-9][A-Z]")
TRITON = """x_ptr static_range atomic_cas debug_barrier inline_asm_elementwise device_print dot_scaled TRITON_INTERPRET
            eviction_policy cache_modifier associative_scan num_ctas"""
NOT_BUILT = "atomic_load atomic_store grid_barrier"
FOREIGN = {*TRITON.split(), *NOT_BUILT.split(), "kPascal"}


def tracked():
    return subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")


def words_of_sources(files):
    words = set()
    for name in files:
        if name.endswith((".md", ".jsonl", ".svg")) or not (ROOT / name).is_file() or name == "tools/dev/check_docs.py":
            continue
        words.update(WORD.findall((ROOT / name).read_text(errors="replace")))
        words.update(WORD.findall(name))
        if name.startswith("tests/"):  # the program of tests/a/b/c_test.cpp is a_b_c_test
            words.add(name[len("tests/"):].rsplit(".", 1)[0].replace("/", "_"))
    return words


def is_known(word, words):
    """`_X` matches an op; `a_` and `_b` match all words with that prefix or suffix."""
    if word in FOREIGN or word in words:
        return True
    if word.endswith("_X"):
        word = word[:-1]
    if word.endswith("_"):
        return any(w.startswith(word) for w in words)
    return word.startswith("_") and any(w.endswith(word) for w in words)


def parts(lines):
    """Returns the page without code blocks, line by line, and the words of those blocks."""
    prose, words, inside = [], set(), False
    for line in lines:
        fence = line.lstrip().startswith("```")
        inside ^= fence
        prose.append("" if inside or fence else line)
        if inside:
            words.update(WORD.findall(line))
    return prose, words


def faults_of(page, words):
    lines = (ROOT / page).read_text().split("\n")
    prose, own = parts(lines)
    for number, line in enumerate(lines, 1):
        if len(line) > WIDTH and not line.startswith("|"):
            yield f"{page}:{number}: {len(line)} columns"
    for number, line in enumerate(prose, 1):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"`[^`]*`", "", line)):
            if "://" not in target and not ((ROOT / page).parent / target).exists():
                yield f"{page}:{number}: no file {target}"
    text = "\n".join(prose)
    for span in re.finditer(r"`([^`]+)`", text):  # a span may continue on the next line
        for word in WORD.findall(span[1]):
            if page not in RECORDS and IDENTIFIER.search(word.strip("_")) and word not in own and not is_known(word, words):
                yield f"{page}:{text.count(chr(10), 0, span.start()) + 1}: `{word}` is not in the tree"


def faults_of_sweeps(folder="bench/results/sweeps"):
    """Each row begins with the names of its files, which may contain `*`."""
    rows = re.findall(r"^\| (`.*?) \| ", (ROOT / folder / "README.md").read_text(), re.M)
    patterns = [p for row in rows for p in re.findall(r"`([^`]+\.(?:jsonl|txt))`", row)]
    files = [p.name for p in sorted((ROOT / folder).iterdir()) if p.name != "README.md"]
    for file in files:
        if (count := sum(fnmatch.fnmatchcase(file, p) for p in patterns)) != 1:
            yield f"{folder}/{file}: has {count} rows in {folder}/README.md"
    for pattern in patterns:
        if not fnmatch.filter(files, pattern):
            yield f"{folder}/README.md: no file {pattern}"


def faults_of_links(folder="docs/api"):
    for page in sorted((ROOT / folder).rglob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+)", re.sub(r"`[^`]*`|^    .*", "", page.read_text(), flags=re.M)):
            if "://" not in target and not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: no file {target}"


def main():
    words = words_of_sources(tracked())
    faults = [fault for page in PAGES for fault in faults_of(page, words)] + [*faults_of_sweeps(), *faults_of_links()]
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
