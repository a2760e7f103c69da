#pragma once
// A program as text, compiled with a fault planted after a pass, and how the simulator finds it.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/fuzz/run_program.h"

namespace tegula::test {

struct TextProgram {
  const char* text;
  std::vector<ir::Ints> dims;  ///< extents of the views, in order
};

/// Row-major tensors of numbers from -50 to -1; results hold 77.
inline fuzz::Arguments arguments(const TextProgram& p, const ir::Kernel& k) {
  fuzz::Arguments args;
  for (std::size_t n = 0; n < p.dims.size(); ++n) {
    const ir::Type view = k.type(k.params()[n].value);
    fuzz::Argument a{.dtype = view.dtype(),
                     .is_view = true,
                     .dims = p.dims[n],
                     .strides = ir::Ints(p.dims[n].size()),
                     .bytes = {}};
    std::int64_t step = 1;
    for (std::size_t i = a.dims.size(); i-- > 0; step *= a.dims[i]) a.strides[i] = step;
    a.bytes.resize(static_cast<std::size_t>(step * size_bytes(a.dtype)));
    for (std::int64_t i = 0; i < step; ++i) {
      const std::int64_t v = view.view_facts().access == ir::Access::Out ? 77 : -1 - (i * 37) % 50;
      a.put(i, is_float(a.dtype) ? ir::Cell{.f = static_cast<double>(v)} : ir::Cell{.i = v});
    }
    args.push_back(std::move(a));
  }
  return args;
}

/// Compiled for four warps; `plant` changes the kernel after the pass `after`.
inline ir::Kernel compiled_with(const ir::Kernel& tile, std::string_view after = {},
                                const std::function<void(ir::Kernel&)>& plant = {}) {
  ir::Kernel k = clone(tile);
  ir::PassContext context;
  context.plan = ir::Plan{.num_warps = 4};
  for (const ir::Pass& pass : runtime::optimize_passes()) {
    pass.run(k, context);
    k.info.form = pass.leaves;
    verify_or_throw(k, pass.name);
    if (!plant || pass.name != after) continue;
    const std::string before = print(k);
    plant(k);
    EXPECT_NE(print(k), before) << "the fault changes nothing";
    verify_or_throw(k, "planting a fault");
  }
  return k;
}

/// Returns how the fault is detected; "" if it is not.
inline std::string how_caught(const ir::Kernel& tile, const ir::Kernel& simt, const TextProgram& p,
                              const fuzz::Arguments& want) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    fuzz::Arguments got = arguments(p, tile);
    const auto report = fuzz::simulate(simt, {1, 1, 1}, got, seed, 5'000'000);
    if (!report.clean()) return std::string(sim::name(report.findings.front().kind));
    if (const std::string found = fuzz::difference(want, got); !found.empty()) return found;
  }
  return "";
}

/// Plants the faults of a list, each with `name`, `program` and `after`, one at a time; how many
/// are caught. A compilation without a fault has to be right.
template <class Faults, class Plant>
int count_caught(const Faults& faults, const Plant& plant) {
  int caught = 0;
  for (const auto& fault : faults) {
    SCOPED_TRACE(fault.name);
    const ir::Kernel tile = ir::parse(fault.program.text);
    fuzz::Arguments want = arguments(fault.program, tile);
    EXPECT_EQ(fuzz::interpret(tile, want), "");
    EXPECT_EQ(how_caught(tile, compiled_with(tile), fault.program, want), "");
    const ir::Kernel wrong =
        compiled_with(tile, fault.after, [&](ir::Kernel& k) { plant(k, fault); });
    const std::string how = how_caught(tile, wrong, fault.program, want);
    std::printf("%-52s %-20s %s\n", fault.name, fault.after,
                how.empty() ? "NOT CAUGHT" : how.c_str());
    caught += how.empty() ? 0 : 1;
  }
  std::printf("%zu planted, %d caught\n", std::size(faults), caught);
  return caught;
}

}  // namespace tegula::test
