#!/usr/bin/env python3
"""check_words.py SOURCE_DIR: planted words must be refused by tools/dev/check_words.py, and by place."""
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
CASES = [  # file, text, what it says
    ("ir/a.cpp", "int last_arriver = 0;\n", "ir/a.cpp:1: 'last_arriver': write arrive_and_test_last"),
    ("ir/a.cpp", "int x;\n\n/// Of a warp.\nint y;\n", "ir/a.cpp:3: 'Of'"),
    ("ir/include/tegula/a.h", "int x = 0;  ///< of a warp\n", "ir/include/tegula/a.h:1: 'of'"),
    ("ir/include/tegula/a.h", "/// What it takes.\nint x = 0;\n", "ir/include/tegula/a.h:1: 'What'"),
    ("ir/a.cpp", "/// Copies the rows behind the tile.\nint x;\n", "ir/a.cpp:1: 'behind': write after"),
    ("docs/a.md", "A pointer is no number.\n", "docs/a.md:1: 'is no '"),
    ("codegen/helpers.cpp", "int x;\n", "codegen/helpers.cpp:1: 'helpers'"),
]
GOOD = {"ir/include/tegula/good.h": "int x = 0;  ///< bytes, or\n            ///< of a warp\n",
        "ir/good.cpp": "#include <vector>\n\n/// Sums a row.\nint sum = 0;  ///< bytes\n", "docs/good.md": "The accumulator.\nIt is no longer there, and there is no other.\n",
        "tests/good.cpp": "/// Copies the rows behind the tile.\nint x;\n"}


def run(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        subprocess.run(["git", "add", "-A"], cwd=root, check=True)
        done = subprocess.run([sys.executable, SOURCE / "tools/dev/check_words.py", root], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


failed = 0
code, said = run(GOOD)
if code != 0:
    failed += 1
    print(f"refuses what is right:\n{said}")
for name, text, wanted in CASES:
    code, said = run(GOOD | {name: text})
    if code != 1 or wanted not in said:
        failed += 1
        print(f"{name}: {code}, wanted {wanted!r}, said:\n{said}")
sys.exit(1 if failed else 0)
