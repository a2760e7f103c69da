#pragma once
// Helpers of the simulator's tests: kernels as text whose ops carry the line they stand on,
// arguments, running.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/sim/simulator.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/replaced.h"

namespace tegula::sim {

using test::replaced;

/// Gives every op without a location the line and column at which its mnemonic is in the text.
/// Walks ops and text in step: both are in the same order.
inline void locate_ops(ir::Kernel& k, std::string_view text, const char* file) {
  std::size_t at = text.find('{');
  std::uint32_t line = 1;
  std::size_t counted = 0, line_start = 0;
  const auto is_word = [&](std::size_t n) {
    return n < text.size() && (std::isalnum(static_cast<unsigned char>(text[n])) || text[n] == '_');
  };
  const auto next_word = [&](std::string_view wanted) {
    for (; at < text.size(); ++at) {
      if (text[at] == ';')
        at = std::min(text.size(), text.find('\n', at));
      else if (text[at] == '"')
        at = text.find('"', at + 1);
      else if (text.substr(at).starts_with(wanted) && !is_word(at + wanted.size()) &&
               !is_word(at - 1) && text[at - 1] != '%')
        return;
    }
    throw std::runtime_error("locate_ops: lost at " + std::string(wanted));
  };
  ir::walk(k, k.body(), [&](ir::OpId id) {
    const std::string_view name = ir::info(k[id].opcode).mnemonic;
    next_word(name);
    for (; counted < at; ++counted)
      if (text[counted] == '\n') ++line, line_start = counted + 1;
    if (!k[id].loc.known())
      k[id].loc = Loc(file, line, static_cast<std::uint32_t>(at - line_start + 1));
    at += name.size();
  });
}

/// The beginning of a kernel: at `offset` of shared memory an mbarrier, which %first, true in
/// thread 0, makes and tells of the bytes to come. The branch is still open for the copies.
inline std::string barrier_prologue(int offset, int bytes) {
  return fmt::format(R"(  %zero = const [value = 0] : i32
  %tid = tid
  %base = smem_base
  %bar_off = const [value = {}] : i32
  %bar = add %base, %bar_off
  %first = cmp %tid, %zero [pred = "eq"]
  if %first {{
    mbar_init %bar [count = 1]
    fence_mbar_init
  }} {{
  }}
  bar_sync %zero
  if %first {{
    mbar_expect_tx %bar [bytes = {}]
)",
                     offset, bytes);
}

inline ir::Kernel parse_located(std::string_view text, const char* file = "test.tir") {
  ir::Kernel k = ir::parse(text, file);
  const auto faults = ir::verify(k);
  std::string all;
  for (const Diagnostic& d : faults) all += d.str() + "\n";
  EXPECT_TRUE(faults.empty()) << all;
  locate_ops(k, text, file);
  return k;
}

/// Storage as the device allocates it.
template <class T>
struct Aligned {
  using value_type = T;
  Aligned() = default;
  template <class U>
  Aligned(const Aligned<U>&) {}
  T* allocate(std::size_t n) {
    return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(256)));
  }
  void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t(256)); }
  friend bool operator==(const Aligned&, const Aligned&) { return true; }
};
template <class T>
using Buffer = std::vector<T, Aligned<T>>;

/// Arguments and the memory they point to.
struct Launch1 {
  std::vector<SimArg> args;
  SimOptions options;

  template <class T>
  Launch1& pointer(Buffer<T>& v) {
    args.push_back(arg_pointer(v.data()));
    options.ranges.push_back({v.data(), v.data() + v.size()});
    return *this;
  }
  Launch1& value(std::int64_t v) {
    args.emplace_back(v);
    return *this;
  }
  Launch1& real(double v) {
    args.emplace_back(v);
    return *this;
  }
  Launch1& map(const codegen::TensorMap& m) {
    args.emplace_back(&m);
    return *this;
  }
  Report run(const ir::Kernel& k, Grid grid = {1, 1, 1}) {
    return simulate(k, grid, args, options);
  }
};

/// A row-major matrix as a two-dimensional tensor map.
template <class T>
codegen::TensorMap matrix_map(Buffer<T>& v, std::int64_t rows, std::int64_t columns, int box_rows,
                              int box_columns, int swizzle) {
  codegen::TensorMap m;
  m.base = v.data();
  m.dtype = dtype_of<T>;
  m.rank = 2;
  m.dims[0] = columns;
  m.dims[1] = rows;
  m.strides[0] = static_cast<std::int64_t>(sizeof(T));
  m.strides[1] = columns * static_cast<std::int64_t>(sizeof(T));
  m.box[0] = box_columns;
  m.box[1] = box_rows;
  m.swizzle = swizzle;
  return m;
}

}  // namespace tegula::sim
