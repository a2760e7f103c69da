#pragma once
#include <cstdint>

/// The binary interface of DLPack 1.x, which passes tensors between libraries without a copy.
/// Layouts are those of dlpack.h: cast a `DLManagedTensorVersioned*` to
/// `tegula::dlpack::ManagedTensorVersioned*` and back.
namespace tegula::dlpack {

enum class DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };

enum class TypeCode : std::uint8_t {
  signed_int = 0,
  unsigned_int = 1,
  floating = 2,
  bfloat = 4,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e5m2 = 12,
};

struct Device {
  DeviceType type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

/// Strides count elements; null means row-major.
struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* manager_context;
  void (*deleter)(ManagedTensor* self);
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

/// Bit of ManagedTensorVersioned::flags: the memory must not be written.
inline constexpr std::uint64_t kFlagReadOnly = 1;

struct ManagedTensorVersioned {
  Version version;
  void* manager_context;
  void (*deleter)(ManagedTensorVersioned* self);
  std::uint64_t flags;
  Tensor tensor;
};

}  // namespace tegula::dlpack
