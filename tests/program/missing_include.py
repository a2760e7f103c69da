#!/usr/bin/env python3
"""missing_include.py SOURCE BUILD: in a build without groups, every file of the library is compiled by itself, and fails if
it lacks an include, also where the group that it belongs to elsewhere hides that."""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = (pathlib.Path(sys.argv.pop()) for _ in range(2))
LAYERS = ["support", "ir", "codegen", "runtime", "dsl", "autotune", "kernels"]
COMMANDS = {pathlib.Path(c["file"]): c for c in json.loads((BUILD / "compile_commands.json").read_text())}
# Another file of its group in the preset `ci` includes this header.
FILE, INCLUDE = "runtime/artefact_format.cpp", "#include <fmt/format.h>\n"


def compiles(text):
    """Returns whether FILE compiles with this text and its own flags."""
    command = COMMANDS[SOURCE / FILE]
    words = shlex.split(command["command"])
    del words[words.index("-o"):words.index("-o") + 2]
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy.cpp"
        copy.write_text(text)
        words[words.index("-c"):] = ["-fsyntax-only", str(copy)]
        return subprocess.run(words, cwd=command["directory"], capture_output=True, check=False).returncode == 0


class MissingInclude(unittest.TestCase):
    def test_every_file_is_compiled_by_itself(self):
        files = [f for layer in LAYERS for f in (SOURCE / layer).rglob("*.cpp") if f.parent != SOURCE / "codegen/llvm"]
        self.assertGreater(len(files), 500)
        self.assertEqual([f for f in files if f not in COMMANDS], [])

    def test_a_planted_one_fails(self):
        text = (SOURCE / FILE).read_text()
        self.assertIn(INCLUDE, text)
        self.assertTrue(compiles(text))
        self.assertFalse(compiles(text.replace(INCLUDE, "")))


if __name__ == "__main__":
    unittest.main()
