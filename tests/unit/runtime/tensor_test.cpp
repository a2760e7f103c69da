#include "tegula/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "runtime/storage.h"
#include "tegula/error.h"

namespace tegula::tensor_test {
namespace {

constexpr Device kCpu = Device::cpu();

Tensor iota(const Dims& shape, DType dtype = DType::f32) {
  return Tensor::iota(shape, dtype, kCpu);
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const CompileError& e) {
    return e.diagnostic().message;
  }
  return "no error";
}

TEST(Tensor, RowMajorStrides) {
  const Tensor t = iota({2, 3, 4});
  EXPECT_EQ(t.strides(), (Dims{12, 4, 1}));
  EXPECT_EQ(t.numel(), 24);
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_EQ(t.str(), "f32[2, 3, 4] on cpu");
}

TEST(Tensor, SliceAndTransposeAreViews) {
  const Tensor t = iota({4, 6});
  EXPECT_EQ(t.slice(0, 1, 3).slice(1, 0, 6, 2).to_vector<float>(),
            (std::vector<float>{6, 8, 10, 12, 14, 16}));
  EXPECT_EQ(t.transpose(0, 1).select(0, 2).to_vector<float>(), (std::vector<float>{2, 8, 14, 20}));
  EXPECT_EQ(t.transpose(0, 1).data(), t.data());
  t.select(1, 5).fill(-1);
  EXPECT_EQ(t.select(0, 3).to_vector<float>(), (std::vector<float>{18, 19, 20, 21, 22, -1}));
}

TEST(Tensor, NegativeStridesAndTheirByteRange) {
  const Tensor t = iota({2, 5}, DType::i16);
  const Tensor back = t.flip(1);
  EXPECT_EQ(back.strides(), (Dims{5, -1}));
  EXPECT_EQ(back.to_vector<i16>(), (std::vector<i16>{4, 3, 2, 1, 0, 9, 8, 7, 6, 5}));
  EXPECT_EQ(back.byte_range(), t.byte_range());
  EXPECT_EQ(t.slice(1, 4, -1, -2).to_vector<i16>(), (std::vector<i16>{4, 2, 0, 9, 7, 5}));
  EXPECT_EQ(t.slice(1, 3, 1, -1).to_vector<i16>(), (std::vector<i16>{3, 2, 8, 7}));
  const Tensor target = Tensor::zeros({2, 5}, DType::i16, kCpu);
  target.flip(0).flip(1).copy_from(t);
  EXPECT_EQ(target.to_vector<i16>(), (std::vector<i16>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
}

TEST(Tensor, EmptyTensors) {
  const Tensor t = Tensor::empty({0, 7}, DType::f32, kCpu);
  EXPECT_TRUE(t.defined());
  EXPECT_EQ(t.numel(), 0);
  EXPECT_TRUE(t.to_vector<float>().empty());
  EXPECT_TRUE(t.flip(0).clone().transpose(0, 1).to_doubles().empty());
  EXPECT_EQ(t.byte_range().begin, t.byte_range().end);
  EXPECT_EQ(t.reshape({7, 0}).shape(), (Dims{7, 0}));
  EXPECT_EQ(iota({3}).slice(0, 2, 2).numel(), 0);
  EXPECT_EQ(Tensor::from(std::vector<float>{}, kCpu).numel(), 0);
  const Tensor scalar = Tensor::full({}, 3, DType::bf16, kCpu);
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_EQ(scalar.to_doubles(), std::vector<double>{3});
}

TEST(Tensor, MoreThanTwoToThe31Elements) {
  const std::int64_t rows = (std::int64_t{1} << 31) + 5;
  alignas(4) char one = 0;  // a stride of 0 gives the extent without the memory
  const Tensor wide = Tensor::borrow(&one, {rows, 3}, DType::i8, kCpu, {0, 0});
  EXPECT_EQ(wide.numel(), rows * 3);
  EXPECT_EQ(wide.byte_range().end - wide.byte_range().begin, 1u);
  const Tensor packed = Tensor::borrow(&one, {rows, 3}, DType::f32, kCpu);
  EXPECT_EQ(packed.byte_range().end - packed.byte_range().begin,
            static_cast<std::uintptr_t>(rows) * 12);
  EXPECT_EQ(static_cast<char*>(packed.select(0, rows - 1).data()) - &one, (rows - 1) * 12);
  EXPECT_EQ(static_cast<char*>(packed.flip(0).data()) - &one, (rows - 1) * 12);
}

/// A stride of 1 belongs to the dimension that is contiguous.
TEST(Tensor, BorrowedExtentsOfOne) {
  alignas(16) std::byte bytes[64] = {};
  const auto strides = [&](const Dims& shape, const Dims& given) {
    return Tensor::borrow(bytes, shape, DType::bf16, kCpu, given).strides();
  };
  EXPECT_EQ(strides({1, 8}, {1, 1}), (Dims{8, 1}));
  EXPECT_EQ(strides({1, 2, 8}, {1, 8, 1}), (Dims{16, 8, 1}));
  EXPECT_EQ(strides({8, 1}, {1, 1}), (Dims{1, 8}));
  EXPECT_EQ(strides({8, 1}, {3, 1}), (Dims{3, 1}));
  EXPECT_EQ(strides({1, 1}, {1, 1}), (Dims{1, 1}));
  EXPECT_EQ(strides({2, 8}, {8, 1}), (Dims{8, 1}));
}

TEST(Tensor, WithRank) {
  const Tensor t = iota({2, 3}).transpose(0, 1), box = t.with_rank(4);
  EXPECT_EQ(box.shape(), (Dims{1, 1, 3, 2}));
  EXPECT_EQ(box.stride(2), 1);
  EXPECT_EQ(box.stride(3), 3);
  EXPECT_EQ(box.data(), t.data());
  EXPECT_EQ(t.with_rank(2).shape(), t.shape());
  EXPECT_EQ(t.with_rank(1).shape(), t.shape());
}

TEST(Tensor, RejectsInvalidArguments) {
  const Tensor t = iota({2, 3});
  EXPECT_EQ(error_of([] { Tensor::empty({2, -1}, DType::f32, kCpu); }),
            "the shape [2, -1] has a negative extent");
  EXPECT_EQ(
      error_of([] { Tensor::empty({1LL << 40, 1LL << 40}, DType::f32, kCpu); }),
      "the shape [1099511627776, 1099511627776] of f32 needs more bytes than an address can count");
  EXPECT_EQ(error_of([] { Tensor::empty({1LL << 61}, DType::f64, kCpu); }),
            "the shape [2305843009213693952] of f64 needs more bytes than an address can count");
  EXPECT_EQ(error_of([&] { t.to_vector<i32>(); }), "the elements of f32[2, 3] on cpu are not i32");
  EXPECT_EQ(error_of([&] { t.size(2); }), "dimension 2 of a tensor of rank 2 does not exist");
  EXPECT_EQ(error_of([&] { t.slice(1, 1, 4); }),
            "the slice 1:4:1 is out of bounds of dimension 1 of f32[2, 3] on cpu");
  EXPECT_EQ(error_of([&] { t.slice(1, 3, -1, -1); }),
            "the slice 3:-1:-1 is out of bounds of dimension 1 of f32[2, 3] on cpu");
  EXPECT_EQ(error_of([&] { t.select(0, 2); }),
            "index 2 is out of bounds of dimension 0 of f32[2, 3] on cpu");
  EXPECT_EQ(error_of([&] { t.permute({0, 0}); }),
            "[0, 0] is not a permutation of the 2 dimensions of f32[2, 3] on cpu");
  EXPECT_EQ(error_of([&] { t.transpose(0, 1).reshape({6}); }),
            "f32[3, 2] strides [1, 3] on cpu cannot be reshaped: it is not row-major");
  EXPECT_EQ(error_of([&] { t.reshape({4, -1}); }),
            "f32[2, 3] on cpu cannot be reshaped to [4, -1]: the number of elements differs");
  EXPECT_EQ(error_of([&] { t.broadcast_to({2, 4}); }),
            "f32[2, 3] on cpu cannot be broadcast to [2, 4]");
  EXPECT_EQ(error_of([&] { Tensor::from(std::vector<float>(5), {2, 3}, kCpu); }),
            "5 values do not fill a tensor of shape [2, 3]");
  EXPECT_EQ(error_of([&] { Tensor::borrow(nullptr, {2}, DType::f32, kCpu); }),
            "the data pointer of a tensor of shape [2] is null");
  alignas(8) char bytes[32];
  EXPECT_EQ(error_of([&] { Tensor::borrow(bytes + 2, {2}, DType::f32, kCpu); }),
            "the data pointer of a tensor of f32 is not aligned to 4 bytes");
  EXPECT_EQ(Tensor::borrow(bytes + 2, {2}, DType::bf16, kCpu).data(), bytes + 2);
  EXPECT_EQ(error_of([] { Dims::filled(9, 1); }),
            "a tensor cannot have 9 dimensions: the limit is 8");
  EXPECT_EQ(error_of([&] { t.copy_from(iota({3, 2})); }),
            "cannot copy f32[3, 2] on cpu into f32[2, 3] on cpu: shape and type must be equal");
}

TEST(Tensor, CastRoundsOnce) {
  // 1 + 2^-8 + 2^-40 is just above the tie between two bf16 values, which a detour through float
  // loses.
  const Tensor t = Tensor::from(std::vector<double>{1 + 0x1p-8 + 0x1p-40, -3.7, 1e300, NAN}, kCpu);
  EXPECT_EQ(t.cast(DType::bf16).to_doubles()[0], 1 + 0x1p-7);
  EXPECT_EQ(t.slice(0, 1, 2).cast(DType::i32).to_vector<i32>(), std::vector<i32>{-3});
  EXPECT_EQ(t.slice(0, 1, 2).cast(DType::i32).cast(DType::u8).to_vector<u8>(),
            std::vector<u8>{253});
  const Tensor far = Tensor::from(std::vector<double>{-3, 300.5, NAN, 1e30, -1e30, INFINITY}, kCpu);
  EXPECT_EQ(far.cast(DType::u8).to_vector<u8>(), (std::vector<u8>{0, 255, 0, 255, 0, 255}));
  EXPECT_EQ(far.cast(DType::i64).to_vector<i64>(),
            (std::vector<i64>{-3, 300, 0, INT64_MAX, INT64_MIN, INT64_MAX}));
  EXPECT_EQ(Tensor::full({1}, 0x1p63, DType::u64, kCpu).to_vector<u64>()[0], u64{1} << 63);
  EXPECT_EQ(Tensor::full({1}, -128.9, DType::f64, kCpu).cast(DType::i8).to_vector<i8>()[0], -128);
  EXPECT_EQ(t.cast(DType::f8e4m3).to_doubles()[2], 448);
  EXPECT_TRUE(std::isnan(t.cast(DType::f8e4m3).to_doubles()[3]));
  EXPECT_EQ(
      Tensor::from(std::vector<i64>{(i64{1} << 62) + 1}, kCpu).cast(DType::u64).to_vector<u64>()[0],
      (u64{1} << 62) + 1);
  EXPECT_EQ(Tensor::from(std::vector<bool>{true, false}, kCpu).to_vector<bool>(),
            (std::vector<bool>{true, false}));
}

TEST(Tensor, RandomValuesDependOnSeedAndPositionOnly) {
  const Tensor a = Tensor::uniform({100}, DType::f32, -2, 3, 7, kCpu);
  const Tensor b = Tensor::uniform({10, 20}, DType::f32, -2, 3, 7, kCpu);
  const std::vector<float> head = b.reshape({200}).slice(0, 0, 100).to_vector<float>();
  EXPECT_EQ(a.to_vector<float>(), head);
  EXPECT_NE(a.to_vector<float>(),
            Tensor::uniform({100}, DType::f32, -2, 3, 8, kCpu).to_vector<float>());
  const std::vector<double> n =
      Tensor::normal({100000}, DType::f64, 1, 2, 3, kCpu).to_vector<double>();
  const double mean = std::accumulate(n.begin(), n.end(), 0.0) / n.size();
  double variance = 0;
  for (double v : n) variance += (v - mean) * (v - mean) / n.size();
  EXPECT_NEAR(mean, 1, 5 * 2 / std::sqrt(1e5));
  EXPECT_NEAR(variance, 4, 0.1);
  const std::vector<double> k = Tensor::integers({10000}, DType::bf16, -2, 3, 5, kCpu).to_doubles();
  std::vector<int> seen(5);
  for (double v : k) ++seen.at(static_cast<std::size_t>(v + 2));
  for (int count : seen) EXPECT_NEAR(count, 2000, 250);
}

TEST(Tensor, MemoryIsPoisonedAndFenced) {
  const Tensor t = Tensor::empty({3}, DType::f32, Device::sim());
  EXPECT_TRUE(std::isnan(t.data_as<float>()[0]));
  EXPECT_FALSE(t.red_zone_damage());
  auto* bytes = static_cast<unsigned char*>(t.data());
  const unsigned char before = bytes[12];
  bytes[12] = 0;
  EXPECT_EQ(t.red_zone_damage(), 12);
  bytes[12] = before;
  bytes[-1] = 0;
  EXPECT_EQ(t.slice(0, 1, 2).red_zone_damage(), -1);
  const auto address = reinterpret_cast<std::uintptr_t>(bytes);
  EXPECT_EQ(runtime::find_host_allocation(address + 20)->begin, address);
  EXPECT_EQ(runtime::find_host_allocation(address - 20)->begin, address);
  EXPECT_EQ(runtime::find_host_allocation(address - 20)->bytes, 12u);
}

TEST(Tensor, AllocationsAreFoundAmongNeighbours) {
  std::vector<Tensor> many;
  for (int i = 1; i < 40; ++i) many.push_back(Tensor::empty({i * 700}, DType::u8, kCpu));
  for (const Tensor& t : many) {
    const ByteRange r = t.byte_range();
    for (std::uintptr_t a : {r.begin - 1, r.begin, r.end - 1, r.end})
      EXPECT_EQ(runtime::find_host_allocation(a)->begin, r.begin);
  }
  const std::uintptr_t gone = many.back().byte_range().begin;
  many.pop_back();
  const auto found = runtime::find_host_allocation(gone);
  EXPECT_TRUE(!found || found->begin != gone);
}

TEST(Tensor, OwnerLivesWithTheLastView) {
  int freed = 0;
  float values[4] = {1, 2, 3, 4};
  Tensor view;
  {
    const std::shared_ptr<void> owner(values, [&](void*) { ++freed; });
    view = Tensor::borrow(values, {4}, DType::f32, kCpu, {}, owner).slice(0, 2, 4);
  }
  EXPECT_EQ(freed, 0);
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{3, 4}));
  view = Tensor();
  EXPECT_EQ(freed, 1);
}

TEST(Dlpack, RoundTripKeepsMemoryAndLayout) {
  for (const DTypeInfo& info : kDTypeInfo) {
    const Tensor t = Tensor::zeros({3, 4}, info.dtype, kCpu).transpose(0, 1).flip(0);
    const Tensor back = Tensor::from_dlpack(t.to_dlpack());
    EXPECT_EQ(back.data(), t.data());
    EXPECT_EQ(back.dtype(), t.dtype());
    EXPECT_EQ(back.shape(), t.shape());
    EXPECT_EQ(back.strides(), t.strides());
    EXPECT_EQ(Tensor::from_dlpack(t.to_dlpack_unversioned()).data(), t.data());
  }
}

TEST(Dlpack, DeleterRunsOnceAndRefusalLeavesOwnership) {
  static int deleted = 0;
  float value = 1;
  std::int64_t extent = 1;
  dlpack::ManagedTensorVersioned managed{};
  managed.version = {1, 0};
  managed.deleter = [](dlpack::ManagedTensorVersioned*) { ++deleted; };
  managed.tensor = {&value, {dlpack::DeviceType::cpu, 0}, 1, {2, 32, 1}, &extent, nullptr, 0};
  {
    const Tensor t = Tensor::from_dlpack(&managed);
    EXPECT_EQ(t.clone().to_vector<float>(), std::vector<float>{1});
  }
  EXPECT_EQ(deleted, 1);
  managed.tensor.dtype = {5, 64, 1};
  EXPECT_EQ(error_of([&] { Tensor::from_dlpack(&managed); }),
            "DLPack type (code 5, 64 bits, 1 lanes) is not supported");
  managed.version = {2, 0};
  EXPECT_EQ(error_of([&] { Tensor::from_dlpack(&managed); }),
            "DLPack version 2.0 is not supported: 1.x is");
  EXPECT_EQ(deleted, 1);
}

TEST(Device, Parse) {
  EXPECT_EQ(Device::parse("cuda:3"), Device::cuda(3));
  EXPECT_EQ(Device::parse("cuda"), Device::cuda(0));
  EXPECT_EQ(Device::parse("sim").str(), "sim");
  for (const char* bad : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "CPU"}) {
    try {
      Device::parse(bad);
      ADD_FAILURE() << bad;
    } catch (const DeviceError& e) {
      EXPECT_EQ(e.diagnostic().code, "T2002");
      EXPECT_EQ(e.diagnostic().message, std::string("unknown device '") + bad + "'");
      EXPECT_TRUE(e.diagnostic().hint.starts_with("the devices are cpu")) << e.what();
    }
  }
}

}  // namespace
}  // namespace tegula::tensor_test
