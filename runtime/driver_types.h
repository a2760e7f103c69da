#pragma once
// The part of the CUDA driver's binary interface that Tegula uses, declared here so that the build
// does not depend on CUDA. tests/unit/runtime/driver_abi_test.cpp checks values and layouts against
// cuda.h.
#include <cstdint>

namespace tegula::runtime::cu {

using Device = int;
using DevicePtr = unsigned long long;
using Context = struct ContextOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;
using Library = struct LibraryOpaque*;
using Kernel = struct KernelOpaque*;
using Function = struct FunctionOpaque*;
using Graph = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;
using GraphNode = struct GraphNodeOpaque*;
using UserObject = struct UserObjectOpaque*;
using HostFunction = void (*)(void*);

/// CU_STREAM_PER_THREAD.
inline void* const kStreamPerThread = reinterpret_cast<void*>(std::uintptr_t{2});

enum Result : int {
  kSuccess = 0,
  kErrorInvalidValue = 1,
  kErrorOutOfMemory = 2,
  kErrorNotInitialized = 3,
  kErrorInvalidDevice = 101,
  kErrorInvalidImage = 200,
  kErrorNoBinaryForGpu = 209,
  kErrorInvalidPtx = 218,
  kErrorUnsupportedPtxVersion = 222,
  kErrorNotFound = 500,
  kErrorNotReady = 600,
  kErrorIllegalAddress = 700,
  kErrorLaunchOutOfResources = 701,
  kErrorStreamCaptureUnsupported = 900,
  kErrorStreamCaptureInvalidated = 901,
};

enum DeviceAttribute : int {
  kAttrMaxThreadsPerBlock = 1,
  kAttrClockRateKhz = 13,
  kAttrSmCount = 16,
  kAttrMemoryClockKhz = 36,
  kAttrMemoryBusBits = 37,
  kAttrL2Bytes = 38,
  kAttrComputeMajor = 75,
  kAttrComputeMinor = 76,
  kAttrSharedPerSm = 81,
  kAttrRegistersPerSm = 82,
  kAttrSharedPerBlockOptin = 97,
  kAttrClusterLaunch = 120,
};

enum FunctionAttribute : int {
  kFuncMaxThreadsPerBlock = 0,
  kFuncSharedBytes = 1,
  kFuncLocalBytes = 3,
  kFuncRegisters = 4,
  kFuncMaxDynamicShared = 8,
  kFuncNonPortableCluster = 14,
};

enum JitOption : int {
  kJitInfoLog = 3,
  kJitInfoLogBytes = 4,
  kJitErrorLog = 5,
  kJitErrorLogBytes = 6,
  kJitLogVerbose = 12,
};

enum LibraryOption : int { kLibraryBinaryIsPreserved = 1 };
enum StreamFlags : unsigned { kStreamDefault = 0, kStreamNonBlocking = 1 };
enum EventFlags : unsigned { kEventDefault = 0, kEventDisableTiming = 2 };
enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };
enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };
enum UserObjectFlags : unsigned { kUserObjectNoSync = 1 };
enum RetainFlags : unsigned { kRetainMove = 1 };
enum ProcQuery : int { kProcFound = 0, kProcNotFound = 1, kProcVersionTooLow = 2 };

enum LaunchAttributeId : int {
  kLaunchCooperative = 2,
  kLaunchClusterDimension = 4,
  kLaunchProgrammaticStreamSerialization = 6,
  kLaunchPriority = 8,
};

union LaunchAttributeValue {
  char pad[64];
  int cooperative;
  struct {
    unsigned x, y, z;
  } cluster;
  int programmatic_stream_serialization;
  int priority;
  void* aligns_as_the_driver_does;
};

struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  LaunchAttributeValue value;
};

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

struct alignas(128) TensorMap {
  std::uint64_t opaque[16];
};

enum TensorMapType : int {
  kMapU8 = 0,
  kMapU16,
  kMapU32,
  kMapI32,
  kMapU64,
  kMapI64,
  kMapF16,
  kMapF32,
  kMapF64,
  kMapBf16,
  kMapF32Ftz,
  kMapTf32
};
enum TensorMapInterleave : int { kInterleaveNone = 0, kInterleave16, kInterleave32 };
enum TensorMapSwizzle : int { kSwizzleNone = 0, kSwizzle32, kSwizzle64, kSwizzle128 };
enum TensorMapL2 : int { kL2None = 0, kL2Promote64, kL2Promote128, kL2Promote256 };
enum TensorMapFill : int { kFillZero = 0, kFillNan };

struct Uuid {
  char bytes[16];
};

}  // namespace tegula::runtime::cu
