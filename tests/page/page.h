#pragma once
#include <gtest/gtest.h>
#include <tegula/tegula.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

/// Shared by tests of pages: a fixture whose parameter is the device, and short names for tensors.
namespace tegula::page {

class Page : public testing::TestWithParam<Device> {
 protected:
  static Device device() { return GetParam(); }
  static Tensor zeros_of(const Dims& shape, DType dtype = DType::f32) {
    return Tensor::zeros(shape, dtype, device());
  }
  static Tensor ones_of(const Dims& shape, DType dtype = DType::f32) {
    return Tensor::full(shape, 1, dtype, device());
  }
  static Tensor iota_of(const Dims& shape, DType dtype = DType::f32) {
    return Tensor::iota(shape, dtype, device());
  }
  static Tensor empty_of(const Dims& shape, DType dtype = DType::f32) {
    return Tensor::empty(shape, dtype, device());
  }
};

inline auto cpu_and_sim() { return testing::Values(Device::cpu(), Device::sim()); }
inline std::string name_of(const testing::TestParamInfo<Device>& p) { return p.param.str(); }

/// Returns the code of the error that `call` throws; "" if it throws none.
template <class Call>
std::string code_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const CompileError& e) {
    return e.diagnostic().code;
  }
}

}  // namespace tegula::page
