#pragma once
// The devices that are here, as parameters of a test.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tegula/device.h"

namespace tegula::test {

inline std::vector<Device> devices() {
  std::vector<Device> list{Device::cpu(), Device::sim()};
  if (Device::cuda_count() > 0) list.push_back(Device::cuda());
  return list;
}

inline std::string name_of(Device d) {
  return d.kind == DeviceKind::cpu ? "cpu" : d.kind == DeviceKind::sim ? "sim" : "cuda";
}

/// For INSTANTIATE_TEST_SUITE_P.
inline std::string device_name(const ::testing::TestParamInfo<Device>& info) {
  return name_of(info.param);
}

}  // namespace tegula::test
