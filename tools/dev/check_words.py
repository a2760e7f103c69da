#!/usr/bin/env python3
"""check_words.py [--report] [ROOT]: rejects synonyms of the glossary's terms (docs/glossary.md).

tools/dev/banned_words.tsv has a row for each: scopes, level, pattern (Python re), what to write instead. Scopes:
  id     code of .cpp, .h, .def and .cu without comments and strings
  block  first words of a comment block (consecutive lines of //)
  trail  first words of a comment after code
  public first words of either in a public header
  com    any comment
  text   comments outside of tests/, and pages
  doc    docs/*.md and README.md (docs/experiments/, lab notes, apart)
  file   names of source files, without folder
Level E fails; W is a word with another legal meaning, or one that is not yet gone: printed by --report, with counts.
"""
import collections
import pathlib
import re
import subprocess
import sys

ALLOWED = [  # (file, text of the line): why
    (r"\.(cpp|h)$", r"llvm/Transforms/Utils/"),  # LLVM's name
]
LEXER = re.compile(r'(?P<com>//[^\n]*|/\*.*?\*/)'
                   r'|(?P<str>R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\')', re.S)
SOURCES = (".cpp", ".h", ".def", ".cu")


def blanked(text):
    """Replaces all but line ends by spaces."""
    return re.sub(r"[^\n]", " ", text)


def parts_of(text):
    """Returns (scope, line number, text) of a source file's code and comments."""
    code, comments, end = [], [], 0
    for match in LEXER.finditer(text):
        code += [text[end:match.start()], blanked(match[0])]
        if match["com"]:
            comments.append((text.count("\n", 0, match.start()) + 1, match[0]))
        end = match.end()
    lines = "".join(code + [text[end:]]).split("\n")
    for number, line in enumerate(lines, 1):
        yield "id", number, line
    last = None
    for number, comment in comments:
        words = re.sub(r"^/[/*]+[<!]?\s*", "", comment)
        yield "com", number, words
        if lines[number - 1].strip():
            yield "trail", number, words
            last = None
        else:
            if last != number - 1 and not comment.startswith("///<"):  # "///<" continues the preceding trailing comment
                yield "block", number, words
            last = number


def rules_of(path):
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            scopes, level, pattern, instead = line.split("\t")
            yield tuple(scopes.split(",")), level, re.compile(pattern), instead


def main():
    arguments = [a for a in sys.argv[1:] if a != "--report"]
    here = pathlib.Path(__file__).resolve()
    root = pathlib.Path(arguments[0]) if arguments else here.parents[2]
    rules = list(rules_of(here.parent / "banned_words.tsv"))
    by_scope = collections.defaultdict(list)
    for rule in rules:
        for scope in rule[0]:
            by_scope[scope].append(rule)
    counts, faults = collections.Counter(), []

    def look(scope, file, number, text):
        for rule in by_scope[scope]:
            match = rule[2].search(text)
            if not match or any(re.search(f, file) and re.search(t, text) for f, t in ALLOWED):
                continue
            counts[rule] += 1
            if rule[1] == "E":
                faults.append(f"{file}:{number}: '{match[0]}': write {rule[3]}")

    files = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout.split("\n")
    for file in filter(None, files):
        path = root / file
        if file.startswith("bench/results/") or not path.is_file():
            continue
        if file.endswith(SOURCES):
            look("file", file, 1, path.stem)
            for scope, number, text in parts_of(path.read_text()):
                look(scope, file, number, text)
                if scope == "com" and not file.startswith("tests/"):
                    look("text", file, number, text)
                if scope in ("block", "trail") and "/include/" in file:
                    look("public", file, number, text)
        elif file == "README.md" or (file.startswith("docs/") and file.endswith(".md") and "/experiments/" not in file):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                look("doc", file, number, line)
                look("text", file, number, line)
    if "--report" in sys.argv:
        for rule in rules:
            if counts[rule]:
                print(f"{counts[rule]:5d} {rule[1]} {','.join(rule[0])}  {rule[2].pattern}  -> {rule[3]}")
    print("\n".join(faults[:80]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
