#!/usr/bin/env python3
"""api_pages.py SOURCE_DIR: tools/dev/api_pages.py writes a page of a header, and refuses stale pages and missing docstrings."""
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
HEADER = """#pragma once
#include "tegula/b.h"

/// Sums of rows. More of it.
namespace tegula::kernels {
namespace detail {
int hidden();
}

/// Order of a sum.
enum class Order : std::uint8_t {
  any,      ///< the fastest
  /// Order of the
  /// elements | rows.
  elements = 2,
};
/// Options.
struct Options {
  int width = 8, height = 4;  ///< in bytes
  std::function<void(int a)> call = {};
  bool operator==(const Options&) const = default;
};

/// y = sum(x) for x < y:
///
///     row_sum(x, y);
///
/// - an item with many words that go on until the line of the page would have more columns than allowed here, so the term - b
template <class T, class... Rest>
  requires(sizeof...(Rest) > 0)
void row_sum(const T& x, Rest&&... y, Loc at = std::source_location::current());
void row_sum(Loc at = std::source_location::current()) {
  for (;;) { const char* text = "}"; }
}

/// A class.
template <class T>
class Sum : public Base<T> {
 public:
  explicit Sum(T first) : first_(first), rest_{} {}
  /// Adds.
  Sum& operator+=(const T& x);
  T value() const { return first_; }

 private:
  T first_, rest_;
};

namespace inner {
/// Returns no more.
int last(int x = 'a');
}  // namespace inner
}  // namespace tegula::kernels
"""
WANTED = [
    "# tegula/kernels/a.h\n\n`#include <tegula/kernels/a.h>`. Namespace `tegula::kernels`. Uses [b](../b.md).\n\nSums of rows. More of it.\n",
    "## `Order` (enum)\n\nOrder of a sum.\n\n| value | meaning |\n|---|---|\n| `any` | the fastest |\n"
    "| `elements = 2` | Order of the elements \\| rows. |\n",
    "| `width` | `int` | `8` | in bytes |\n| `height` | `int` | `4` | in bytes |\n| `call` | `std::function<void(int a)>` | `{}` | - |\n",
    "## `row_sum`\n\n```cpp\ntemplate <class T, class... Rest>\nrequires(sizeof...(Rest) > 0) void row_sum(const T& x, Rest&&... y);\nvoid row_sum();\n```\n\n"
    "y = sum(x) for x < y:\n\n    row_sum(x, y);\n\n- an item with many words that go on until the line of the page would have more columns than "
    "allowed here, so the term -\n  b\n",
    "## `Sum` (class)\n\n```cpp\ntemplate <class T>\nclass Sum : public Base<T>;\n```\n",
    "### `Sum`\n\n```cpp\nexplicit Sum(T first);\n```\n\n### `operator+=`, `value`\n\n```cpp\nSum& operator+=(const T& x);\nT value() const;\n```\n\nAdds.\n",
    "## `inner::last`\n\n```cpp\nint last(int x = 'a');\n```\n\nReturns no more.\n",
]


def main():
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        files = {"kernels/include/tegula/kernels/a.h": HEADER, "dsl/include/tegula/b.h": "#pragma once\n/// A number.\nint b;\n",
                 "docs/api/README.md": "# API\n<!-- pages:begin -->\n<!-- pages:end -->\nend\n", "docs/api/old.md": "gone\n"}
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

        def run(*arguments):
            done = subprocess.run([sys.executable, SOURCE / "tools/dev/api_pages.py", root, *arguments], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

        def expect(name, what, *wanted):
            code, said = what
            if code != (1 if wanted else 0) or not all(w in said for w in wanted):
                failed.append(f"{name}: {code}, wanted {wanted}, said:\n{said}")

        expect("no pages", run("--check"), "docs/api/kernels/a.md differs", "docs/api/README.md differs", "docs/api/old.md differs")
        expect("written", run())
        expect("current", run("--check"))
        page, index = (root / "docs/api/kernels/a.md").read_text(), (root / "docs/api/README.md").read_text()
        failed += [f"the page lacks:\n{w}\nIt is:\n{page}" for w in WANTED if w not in page]
        failed += ["the page has what is not public"] * ("hidden" in page or "first_" in page or "operator==" in page)
        failed += [f"the index:\n{index}"] * ("| [`tegula/kernels/a.h`](kernels/a.md) | Sums of rows |\n" not in index or not index.endswith("end\n"))
        failed += ["old.md is still there"] * (root / "docs/api/old.md").exists()
        (root / "dsl/include/tegula/b.h").write_text("#pragma once\nint b();\n")
        expect("without a docstring", run("--check"), "tegula/b.h: `b` has no docstring", "docs/api/b.md differs")
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
