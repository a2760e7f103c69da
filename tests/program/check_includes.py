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
    return complaint_of({path: f"#include {include}\n"})


def complaint_of(files):
    """What the check prints of a tree with more files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**TREE, **files}.items():
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
                             f"kernels/copy/copy.cpp:1: {header}: kernels use the public language only\n")
        for include in ('"tegula/view.h"', '"tegula/kernels/copy.h"', '"kernels/argument_error.h"', "<vector>", "<fmt/format.h>"):
            self.assertEqual(complaint("kernels/copy/copy.cpp", include), "")

    def test_tools_and_tests_see_private_headers(self):
        for path in ("tools/mask.cpp", "tests/unit/kernels/copy_test.cpp"):
            self.assertEqual(complaint(path, '"dsl/tracer.h"'), "")

    def test_layers_do_not_look_upwards(self):
        self.assertIn("ir/ must not include dsl/", complaint("ir/op.cpp", '"dsl/tracer.h"'))
        self.assertEqual(complaint("dsl/tracer.cpp", '"ir/kernel.h"'), "")

    def test_public_headers_see_public_headers(self):
        self.assertIn("std and public headers only", complaint("dsl/include/tegula/math.h", '"ir/kernel.h"'))
        self.assertEqual(complaint("dsl/include/tegula/math.h", '"tegula/view.h"'), "")
        self.assertEqual(complaint("dsl/include/tegula.h", "<stdint.h>"), "")
        for path, include in (("dsl/include/tegula/math.h", "<stdint.h>"), ("dsl/include/tegula.h", "<stdio.h>")):
            self.assertIn("std and public headers only", complaint(path, include))

    def test_std_names_need_their_headers(self):
        use = "int f() { return std::gcd(4, 6); }\n"
        for path in ("kernels/copy.cpp", "ir/divisor.h", "tests/unit/ir/divisor_test.cpp"):
            self.assertEqual(complaint_of({path: "\n" + use}), f"{path}:2: std::gcd: include <numeric>\n")
            self.assertEqual(complaint_of({path: "#include <numeric>\n" + use}), "")
        self.assertEqual(complaint_of({"ir/a.h": "#include <numeric>\n", "ir/b.h": '#include "ir/a.h"\n',
                                       "dsl/include/tegula/c.h": "#include <chrono>\n",
                                       "tests/near.h": '#include "tegula/c.h"\nstd::chrono::seconds s;\n',
                                       "tests/near_test.cpp": '#include "near.h"\n#include "ir/b.h"\n' + use}), "")

    def test_std_names_in_comments_and_literals_need_none(self):
        self.assertEqual(complaint_of({"ir/a.cpp": '// std::gcd\nconst char* a = "std::lcm";\nstd::gcd_like b;\n'}), "")


if __name__ == "__main__":
    unittest.main()
