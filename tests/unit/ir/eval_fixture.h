#pragma once
// Host tensors as arguments, and one call from IR text to report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/eval/eval.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace tegula::ir {

/// A dense row-major tensor that owns its elements.
template <class T>
struct HostTensor {
  std::vector<T> storage;
  Ints dims, strides;
  std::size_t first = 0;

  HostTensor(Ints shape, std::vector<T> values)
      : storage(std::move(values)), dims(std::move(shape)) {
    strides.resize(dims.size());
    std::int64_t step = 1;
    for (std::size_t d = dims.size(); d-- > 0; step *= dims[d]) strides[d] = step;
    storage.resize(static_cast<std::size_t>(step), T{});
  }
  explicit HostTensor(Ints shape) : HostTensor(std::move(shape), {}) {}

  EvalArg view() { return TensorArg{storage.data() + first, dims, strides, dtype_of<T>}; }
  EvalArg pointer() {
    return PointerArg{storage.data(), storage.data(), storage.data() + storage.size()};
  }
  std::vector<double> values() const { return {storage.begin(), storage.end()}; }
};

// std::vector<bool> has no elements in memory.
template <>
struct HostTensor<bool>;

template <class T>
HostTensor<T> iota(Ints shape, double first = 0) {
  HostTensor<T> t(std::move(shape));
  for (std::size_t i = 0; i < t.storage.size(); ++i)
    t.storage[i] = static_cast<T>(first + static_cast<double>(i));
  return t;
}

inline EvalArg int_arg(std::int64_t v) { return Cell{.i = v}; }
inline EvalArg float_arg(double v) { return Cell{.f = v}; }

inline EvalReport run(const std::string& text, std::vector<EvalArg> args,
                      const EvalOptions& options = {}) {
  const Kernel kernel = parse(text);
  verify_or_throw(kernel);
  return evaluate(kernel, args, options);
}

/// Runs a kernel that must be free of faults.
inline void run_clean(const std::string& text, std::vector<EvalArg> args,
                      const EvalOptions& options = {}) {
  const EvalReport report = run(text, std::move(args), options);
  EXPECT_TRUE(report.clean()) << report.str();
}

inline std::vector<std::string> texts(const EvalReport& report) {
  std::vector<std::string> out;
  for (const Finding& f : report.findings) out.push_back(f.text);
  return out;
}

}  // namespace tegula::ir
