// Invalid operations on tensors and launches with invalid tensors, word for word in tensors.txt.
#include <cmath>

#include "expect_error.h"
#include "tegula/tegula.h"

namespace tegula::tensors_test {
namespace {

test::Pinned& pinned() {
  static test::Pinned file("tensors.txt");
  return file;
}

template <class F>
void expect(const char* name, const F& f,
            std::source_location at = std::source_location::current()) {
  pinned().check(name, test::error_of(f, at));
}

constexpr Device kCpu = Device::cpu();

Tensor matrix() { return Tensor::iota({2, 3}, DType::f32, kCpu); }

TEST(TensorError, Made) {
  expect("T1201 negative_extent", [] { Tensor::zeros({2, -1}, DType::f32, kCpu); });
  expect("T1202 too_many_bytes",
         [] { Tensor::empty({std::int64_t{1} << 40, std::int64_t{1} << 40}, DType::f32, kCpu); });
  expect("T1203 too_many_dims", [] { Tensor::empty(Dims::filled(9, 1), DType::f32, kCpu); });
  float values[4] = {};
  expect("T1204 strides_given", [&] { Tensor::borrow(values, {2, 2}, DType::f32, kCpu, {1}); });
  expect("T1205 null_memory", [] { Tensor::borrow(nullptr, {2}, DType::f32, kCpu); });
  expect("T1206 misaligned_memory",
         [&] { Tensor::borrow(reinterpret_cast<char*>(values) + 2, {2}, DType::f32, kCpu); });
  expect("T1219 empty_range", [] { Tensor::integers({2}, DType::i32, 3, 3, 1, kCpu); });
  expect("T1230 value_range", [] { Tensor::full({2}, -1, DType::u32, kCpu); });
  expect("T1230 not a number", [] { Tensor::full({2}, NAN, DType::i64, kCpu); });
  expect("T1230 a fraction", [] { Tensor::full({2}, 2.5, DType::i32, kCpu); });
  expect("T0703 cast of an undefined tensor", [] { Tensor().cast(DType::f16); });
  expect("T0703 values of an undefined tensor", [] { Tensor().to_doubles(); });
  expect("T1230 the last of iota", [] { Tensor::iota({2, 65}, DType::i8, kCpu); });
  expect("T1230 an end of integers", [] { Tensor::integers({2}, DType::u8, 0, 257, 1, kCpu); });
  expect("T1220 value_count", [] { Tensor::from(std::vector<float>(5), {2, 3}, kCpu); });
}

TEST(TensorError, LookedAt) {
  const Tensor t = matrix();
  expect("T1207 tensor_dim", [&] { t.size(2); });
  expect("T1208 tensor_type", [&] { t.to_vector<i32>(); });
  expect("T1209 not_on_host",
         [&] { Tensor::borrow(t.data(), {2, 3}, DType::f32, Device::cuda(0)).data_as<float>(); });
  expect("T1210 slice_step", [&] { t.slice(1, 0, 2, 0); });
  expect("T1211 slice_range", [&] { t.slice(1, 1, 4); });
  expect("T1212 select_index", [&] { t.select(0, 2); });
  expect("T1213 dim_order", [&] { t.permute({0, 0}); });
  expect("T1214 open_extents", [&] { t.reshape({-1, -1}); });
  expect("T1215 reshape_count", [&] { t.reshape({4, -1}); });
  expect("T1216 reshape_strided", [&] { t.transpose(0, 1).reshape({6}); });
  expect("T1217 broadcast_shape", [&] { t.broadcast_to({2, 4}); });
  expect("T1218 copy_shape", [&] { t.copy_from(t.transpose(0, 1)); });
}

TEST(TensorError, OtherLibraries) {
  float values[2] = {};
  std::int64_t shape[9] = {2, 1, 1, 1, 1, 1, 1, 1, 1};
  dlpack::ManagedTensorVersioned managed{};
  managed.version = {1, 0};
  managed.tensor = {values, {dlpack::DeviceType::cpu, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  const auto taken = [&](auto change) {
    return [&managed, change] {
      dlpack::ManagedTensorVersioned other = managed;
      change(other);
      Tensor::from_dlpack(&other);
    };
  };
  expect("T1221 dlpack_type", taken([](auto& m) { m.tensor.dtype = {4, 128, 1}; }));
  expect("T1222 dlpack_device",
         taken([](auto& m) { m.tensor.device.type = static_cast<dlpack::DeviceType>(10); }));
  expect("T1223 dlpack_dims", taken([](auto& m) { m.tensor.ndim = 9; }));
  expect("T1224 dlpack_null",
         [] { Tensor::from_dlpack(static_cast<dlpack::ManagedTensor*>(nullptr)); });
  expect("T1225 dlpack_version", taken([](auto& m) { m.version = {2, 0}; }));
}

/// On every device the same; of the kernel, whose line is known.
template <class Call>
void expect_everywhere(const char* name, const Call& call,
                       std::source_location at = std::source_location::current()) {
  const std::string cpu = test::error_of([&] { call(kCpu); }, at);
  pinned().check(name, cpu);
  EXPECT_EQ(test::error_of([&] { call(Device::sim()); }, at), cpu) << name << " on sim";
}

TEST(TensorError, GridsThatNoGpuLaunches) {
  const auto count = kernel("count", [](In<f32, 1> x, Out<i32, 1> z, Scalar<i32> n) {
    for (auto i : grid(GridSpace(x.dim(0) / n.value()), 1)) z(i) = cast<i32>(i.first());
  });
  const auto divided_by = [&](int n) {
    return [&count, n](Device device) {
      count(Tensor::zeros({4}, DType::f32, device), Tensor::zeros({4}, DType::i32, device), n);
    };
  };
  expect_everywhere("T1227 a negative one", divided_by(-1));
  expect_everywhere("T1228 grid_by_zero", divided_by(0));
  const auto first = kernel("first", [](In<f32, 1> x, InOut<f32, 1> z) {
    for (auto i : grid(x, 1)) z(0) = x(i);
  });
  for (const std::int64_t extent : {std::int64_t{1} << 31, std::int64_t{1} << 32})
    expect_everywhere(extent >> 32 ? "T1227 whose low word is 0" : "T1227 grid_too_large",
                      [&](Device device) {
                        const Tensor one = Tensor::zeros({1}, DType::f32, device);
                        first(one.broadcast_to({extent}), Tensor::zeros({1}, DType::f32, device));
                      });
}

}  // namespace
}  // namespace tegula::tensors_test
