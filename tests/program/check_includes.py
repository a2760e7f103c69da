#!/usr/bin/env python3
"""tools/dev/check_includes.py on trees of a few files: what it refuses, and the near misses that it lets pass."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(sys.argv.pop(1)) / "tools/dev/check_includes.py"
TREE = {"dsl/include/tegula/view.h": "", "dsl/tracer.h": "", "ir/kernel.h": "", "kernels/argument_error.h": "",
        "kernels/include/tegula/kernels/copy.h": ""}


def complaint(path, include):
    """What the check prints of a tree with one more file."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**TREE, path: f"#include {include}\n"}.items():
            file = pathlib.Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
        run = subprocess.run([sys.executable, CHECK, folder], capture_output=True, text=True, check=False)
        assert run.returncode == (1 if run.stdout else 0), run
        return run.stdout


class Includes(unittest.TestCase):
    def test_kernels_see_the_public_language_only(self):
        for header in ("dsl/tracer.h", "ir/kernel.h"):
            self.assertEqual(complaint("kernels/copy/copy.cpp", f'"{header}"'),
                             f"kernels/copy/copy.cpp:1: {header}: kernels are written in the public language only\n")
        for include in ('"tegula/view.h"', '"tegula/kernels/copy.h"', '"kernels/argument_error.h"', "<vector>", "<fmt/format.h>"):
            self.assertEqual(complaint("kernels/copy/copy.cpp", include), "")

    def test_tools_and_tests_see_private_headers(self):
        for path in ("tools/mask.cpp", "tests/unit/kernels/copy_test.cpp"):
            self.assertEqual(complaint(path, '"dsl/tracer.h"'), "")

    def test_layers_do_not_look_upwards(self):
        self.assertIn("ir/ may not see dsl/", complaint("ir/op.cpp", '"dsl/tracer.h"'))
        self.assertEqual(complaint("dsl/tracer.cpp", '"ir/kernel.h"'), "")

    def test_public_headers_see_public_headers(self):
        self.assertIn("std and public headers only", complaint("dsl/include/tegula/math.h", '"ir/kernel.h"'))
        self.assertEqual(complaint("dsl/include/tegula/math.h", '"tegula/view.h"'), "")
        self.assertEqual(complaint("dsl/include/tegula.h", "<stdint.h>"), "")
        for path, include in (("dsl/include/tegula/math.h", "<stdint.h>"), ("dsl/include/tegula.h", "<stdio.h>")):
            self.assertIn("std and public headers only", complaint(path, include))


if __name__ == "__main__":
    unittest.main()
