#include "tegula/dlpack.h"

#include "runtime/dlpack_types.h"
#include "runtime/strided.h"
#include "support/errors.h"
#include "tegula/tensor.h"

namespace tegula {
namespace {

using dlpack::TypeCode;

struct TypeRow {
  DType dtype;
  TypeCode code;
  int bits;  ///< DLPack stores booleans as bytes
};

constexpr TypeRow kDLPackTypes[] = {
    {DType::i1, TypeCode::boolean, 8},         {DType::i8, TypeCode::signed_int, 8},
    {DType::i16, TypeCode::signed_int, 16},    {DType::i32, TypeCode::signed_int, 32},
    {DType::i64, TypeCode::signed_int, 64},    {DType::u8, TypeCode::unsigned_int, 8},
    {DType::u16, TypeCode::unsigned_int, 16},  {DType::u32, TypeCode::unsigned_int, 32},
    {DType::u64, TypeCode::unsigned_int, 64},  {DType::f8e4m3, TypeCode::float8_e4m3fn, 8},
    {DType::f8e5m2, TypeCode::float8_e5m2, 8}, {DType::f16, TypeCode::floating, 16},
    {DType::bf16, TypeCode::bfloat, 16},       {DType::f32, TypeCode::floating, 32},
    {DType::f64, TypeCode::floating, 64},
};
static_assert(std::size(kDLPackTypes) == kDTypeCount);

DType type_from(const dlpack::DataType& type, Loc at) {
  for (const TypeRow& row : kDLPackTypes)
    if (static_cast<std::uint8_t>(row.code) == type.code && row.bits == type.bits &&
        type.lanes == 1)
      return row.dtype;
  fail(ErrorId::dlpack_type, at, {}, int{type.code}, int{type.bits}, type.lanes);
}

Device device_from(const dlpack::Device& device, Loc at) {
  switch (device.type) {
    case dlpack::DeviceType::cpu:
    case dlpack::DeviceType::cuda_host:
      return Device::cpu();
    case dlpack::DeviceType::cuda:
    case dlpack::DeviceType::cuda_managed:
      return Device::cuda(device.id);
  }
  fail(ErrorId::dlpack_device, at, {}, static_cast<int>(device.type));
}

template <class Managed>
Tensor import(Managed* managed, Loc at) {
  if (managed == nullptr) fail(ErrorId::dlpack_null, at, {});
  // Checks everything that can be rejected before it takes ownership of the tensor.
  const Tensor view = Tensor::borrow(managed->tensor, at);
  std::shared_ptr<void> owner(managed, [](void* taken) {
    auto* m = static_cast<Managed*>(taken);
    if (m->deleter != nullptr) m->deleter(m);
  });
  return Tensor::borrow(view.data(), view.shape(), view.dtype(), view.device(), view.strides(),
                        std::move(owner), at);
}

/// Memory to which an exported DLPack tensor points.
template <class Managed>
struct Export {
  Managed managed{};
  Tensor tensor;
  Dims shape;
  Dims strides;
};

template <class Managed>
Managed* hand_out(const Tensor& tensor) {
  auto* out = new Export<Managed>{{}, tensor, tensor.shape(), tensor.strides()};
  dlpack::Tensor& t = out->managed.tensor;
  t.data = tensor.data();
  const bool on_host = tensor.device().on_host();
  t.device = {on_host ? dlpack::DeviceType::cpu : dlpack::DeviceType::cuda, tensor.device().index};
  t.ndim = tensor.rank();
  t.dtype = runtime::dlpack_type(tensor.dtype());
  t.shape = tensor.rank() == 0 ? nullptr : &out->shape[0];
  t.strides = tensor.rank() == 0 ? nullptr : &out->strides[0];
  out->managed.manager_context = out;
  out->managed.deleter = [](Managed* self) {
    delete static_cast<Export<Managed>*>(self->manager_context);
  };
  return &out->managed;
}

}  // namespace

dlpack::DataType runtime::dlpack_type(DType dtype) {
  const TypeRow& row = kDLPackTypes[static_cast<std::size_t>(dtype)];
  return {static_cast<std::uint8_t>(row.code), static_cast<std::uint8_t>(row.bits), 1};
}

Tensor Tensor::borrow(const dlpack::Tensor& t, Loc at) {
  if (t.ndim < 0 || t.ndim > Dims::kMaxRank)
    fail(ErrorId::dlpack_dims, at, {}, t.ndim, +Dims::kMaxRank);
  const auto rank = static_cast<std::size_t>(t.ndim);
  const Dims shape(std::span<const std::int64_t>(t.shape, rank));
  const Dims strides =
      t.strides == nullptr ? Dims{} : Dims(std::span<const std::int64_t>(t.strides, rank));
  void* data = t.data == nullptr ? nullptr : static_cast<char*>(t.data) + t.byte_offset;
  return borrow(data, shape, type_from(t.dtype, at), device_from(t.device, at), strides, nullptr,
                at);
}

Tensor Tensor::from_dlpack(dlpack::ManagedTensorVersioned* managed, Loc at) {
  if (managed != nullptr && managed->version.major != 1)
    fail(ErrorId::dlpack_version, at, {}, managed->version.major, managed->version.minor);
  return import(managed, at);
}

Tensor Tensor::from_dlpack(dlpack::ManagedTensor* managed, Loc at) { return import(managed, at); }

dlpack::ManagedTensorVersioned* Tensor::to_dlpack() const {
  auto* managed = hand_out<dlpack::ManagedTensorVersioned>(*this);
  managed->version = {1, 1};
  return managed;
}

dlpack::ManagedTensor* Tensor::to_dlpack_unversioned() const {
  return hand_out<dlpack::ManagedTensor>(*this);
}

}  // namespace tegula
