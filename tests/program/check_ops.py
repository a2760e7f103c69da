#!/usr/bin/env python3
"""tools/dev/check_ops.py accepts this tree, and refuses one with a switch over ops, an op without a file test, a file
beside the passes that is none, or a pass without its file.

check_ops.py SOURCE"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

SWITCHES = {
    "subject": "int cost(const OpData& d) { switch (d.opcode) { default: return 1; } }",
    "labels": "int cost(Opcode o) { switch (o) { case Opcode::Add: return 1; } return 0; }",
    "names": "int cost(Opcode o) {\n  using enum Opcode;\n  switch (kind) {\n    case Add:\n      return 1;\n  }\n}",
}
NO_SWITCHES = "// switch (d.opcode) { case Opcode::Add: }\nconst char* t = \"switch (opcode)\"; void f() { switch (t.kind()) { case Kind::Add: } }"


def copy_of(source, folder):
    """The parts of the tree that the check reads beside the sources."""
    for name in ("ir/ops.def", "ir/passes/passes.def"):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, target)
    for path in (source / "ir/passes").glob("*.cpp"):
        shutil.copy(path, folder / "ir/passes")
    shutil.copytree(source / "tests/filetests", folder / "tests/filetests")


def main():
    source = pathlib.Path(sys.argv[1])

    def check(root):
        done = subprocess.run([source / "tools/dev/check_ops.py", root], capture_output=True, text=True)
        return done.returncode, done.stdout

    assert check(source) == (0, ""), check(source)
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        copy_of(source, root)
        planted = root / "ir/analysis/planted.cpp"
        planted.parent.mkdir()
        planted.write_text(NO_SWITCHES)
        assert check(root) == (0, ""), check(root)
        for where, text in SWITCHES.items():
            planted.write_text(text)
            rc, out = check(root)
            assert rc == 1 and "ir/analysis/planted.cpp:" in out and "switch over ops" in out, (where, rc, out)
        planted.unlink()
        (root / "ir/passes/helper_of_a_pass.cpp").write_text("")
        assert check(root)[1].startswith("ir/passes/helper_of_a_pass.cpp is not a pass"), check(root)
        (root / "ir/passes/helper_of_a_pass.cpp").unlink()
        (root / "ir/passes/make_persistent.cpp").unlink()
        assert "make_persistent has no file" in check(root)[1], check(root)
        shutil.copy(source / "ir/passes/make_persistent.cpp", root / "ir/passes")
        with (root / "ir/ops.def").open("a") as rows:
            rows.write('SIMT_OP(Planted, "planted", exact(0), 0, 0, infer_none, kEffects, "Nothing.")\n')
        assert check(root) == (1, "ir/ops.def: planted is in no file test\n"), check(root)


if __name__ == "__main__":
    main()
