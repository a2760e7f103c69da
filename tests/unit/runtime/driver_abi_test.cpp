// Our declarations of the driver's binary interface against NVIDIA's own header, where it is
// installed.
#include <gtest/gtest.h>

#include <type_traits>

#include "runtime/driver_types.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define TEGULA_CUDA_H 1
#elif __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#define TEGULA_CUDA_H 1
#endif

#ifndef TEGULA_CUDA_H
TEST(DriverAbi, MatchesCudaHeader) {
  GTEST_SKIP() << "cuda.h is not installed; nothing to compare with";
}
#else
namespace cu = tegula::runtime::cu;

#define SAME_VALUE(ours, theirs) \
  static_assert(static_cast<int>(cu::ours) == static_cast<int>(theirs))
#define SAME_SIZE(ours, theirs) \
  static_assert(sizeof(cu::ours) == sizeof(theirs) && alignof(cu::ours) == alignof(theirs))
#define SAME_OFFSET(ours, theirs, a, b) static_assert(offsetof(cu::ours, a) == offsetof(theirs, b))

SAME_SIZE(Device, CUdevice);
SAME_SIZE(DevicePtr, CUdeviceptr);
SAME_SIZE(Stream, CUstream);
SAME_SIZE(Result, CUresult);
SAME_SIZE(Uuid, CUuuid);
SAME_SIZE(LaunchAttribute, CUlaunchAttribute);
SAME_SIZE(LaunchAttributeValue, CUlaunchAttributeValue);
SAME_SIZE(LaunchConfig, CUlaunchConfig);
static_assert(sizeof(cu::TensorMap) == sizeof(CUtensorMap) &&
              alignof(cu::TensorMap) >= alignof(CUtensorMap));
SAME_OFFSET(LaunchConfig, CUlaunchConfig, shared_bytes, sharedMemBytes);
SAME_OFFSET(LaunchConfig, CUlaunchConfig, stream, hStream);
SAME_OFFSET(LaunchConfig, CUlaunchConfig, attributes, attrs);
SAME_OFFSET(LaunchConfig, CUlaunchConfig, attribute_count, numAttrs);
SAME_OFFSET(LaunchAttribute, CUlaunchAttribute, value, value);
SAME_OFFSET(LaunchAttributeValue, CUlaunchAttributeValue, cluster, clusterDim);

SAME_VALUE(kSuccess, CUDA_SUCCESS);
SAME_VALUE(kErrorInvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(kErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(kErrorNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(kErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(kErrorInvalidImage, CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(kErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(kErrorInvalidPtx, CUDA_ERROR_INVALID_PTX);
SAME_VALUE(kErrorUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_VALUE(kErrorNotFound, CUDA_ERROR_NOT_FOUND);
SAME_VALUE(kErrorNotReady, CUDA_ERROR_NOT_READY);
SAME_VALUE(kErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(kErrorLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME_VALUE(kErrorStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_VALUE(kErrorStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

SAME_VALUE(kAttrMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(kAttrClockRateKhz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME_VALUE(kAttrSmCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(kAttrMemoryClockKhz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME_VALUE(kAttrMemoryBusBits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME_VALUE(kAttrL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME_VALUE(kAttrComputeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(kAttrComputeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(kAttrSharedPerSm, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME_VALUE(kAttrRegistersPerSm, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
SAME_VALUE(kAttrSharedPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_VALUE(kAttrClusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);

SAME_VALUE(kFuncMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(kFuncSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_VALUE(kFuncLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME_VALUE(kFuncRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME_VALUE(kFuncMaxDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(kFuncNonPortableCluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);

SAME_VALUE(kJitInfoLog, CU_JIT_INFO_LOG_BUFFER);
SAME_VALUE(kJitInfoLogBytes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
SAME_VALUE(kJitErrorLog, CU_JIT_ERROR_LOG_BUFFER);
SAME_VALUE(kJitErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_VALUE(kJitLogVerbose, CU_JIT_LOG_VERBOSE);
SAME_VALUE(kLibraryBinaryIsPreserved, CU_LIBRARY_BINARY_IS_PRESERVED);
SAME_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(kCaptureInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME_VALUE(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_VALUE(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(kUserObjectNoSync, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
SAME_VALUE(kRetainMove, CU_GRAPH_USER_OBJECT_MOVE);
SAME_VALUE(kProcFound, CU_GET_PROC_ADDRESS_SUCCESS);
SAME_VALUE(kProcVersionTooLow, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME_VALUE(kLaunchCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME_VALUE(kLaunchClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_VALUE(kLaunchProgrammaticStreamSerialization,
           CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_VALUE(kLaunchPriority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME_VALUE(kMapU8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME_VALUE(kMapU16, CU_TENSOR_MAP_DATA_TYPE_UINT16);
SAME_VALUE(kMapI64, CU_TENSOR_MAP_DATA_TYPE_INT64);
SAME_VALUE(kMapF16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME_VALUE(kMapF32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME_VALUE(kMapF64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
SAME_VALUE(kMapBf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME_VALUE(kMapTf32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
SAME_VALUE(kInterleave32, CU_TENSOR_MAP_INTERLEAVE_32B);
SAME_VALUE(kSwizzle32, CU_TENSOR_MAP_SWIZZLE_32B);
SAME_VALUE(kSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME_VALUE(kL2Promote256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME_VALUE(kFillNan, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);

namespace {
/// Two parameter types agree where both are passed alike: same size, and pointers only for
/// pointers.
template <class A, class B>
constexpr bool kPassedAlike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
template <class Ours, class Theirs>
constexpr bool kCallAlike = false;
template <class... A, class... B>
constexpr bool kCallAlike<cu::Result(A...), CUresult(B...)> = [] {
  if constexpr (sizeof...(A) == sizeof...(B))
    return (kPassedAlike<A, B> && ...);
  else
    return false;
}();
}  // namespace

// cuda.h renames some entry points by macro to the variant it declares, which is the one we request
// except where a newer header changed a signature that we take at its older version.
#define ALIKE(name, params) static_assert(kCallAlike<cu::Result params, decltype(name)>, #name)
ALIKE(cuInit, (unsigned));
ALIKE(cuDeviceTotalMem, (std::size_t*, cu::Device));
ALIKE(cuMemAlloc, (cu::DevicePtr*, std::size_t));
ALIKE(cuMemcpyHtoDAsync, (cu::DevicePtr, const void*, std::size_t, cu::Stream));
ALIKE(cuLibraryLoadData, (cu::Library*, const void*, cu::JitOption*, void**, unsigned,
                          cu::LibraryOption*, void**, unsigned));
ALIKE(cuKernelSetAttribute, (cu::FunctionAttribute, int, cu::Kernel, cu::Device));
ALIKE(cuLaunchKernelEx, (const cu::LaunchConfig*, cu::Function, void**, void**));
ALIKE(cuOccupancyMaxActiveClusters, (int*, cu::Function, const cu::LaunchConfig*));
ALIKE(cuTensorMapEncodeTiled,
      (cu::TensorMap*, cu::TensorMapType, std::uint32_t, void*, const std::uint64_t*,
       const std::uint64_t*, const std::uint32_t*, const std::uint32_t*, cu::TensorMapInterleave,
       cu::TensorMapSwizzle, cu::TensorMapL2, cu::TensorMapFill));
ALIKE(cuGraphInstantiateWithFlags, (cu::GraphExec*, cu::Graph, unsigned long long));
ALIKE(cuStreamBeginCapture, (cu::Stream, cu::CaptureMode));
ALIKE(cuEventElapsedTime, (float*, cu::Event, cu::Event));
ALIKE(cuStreamGetId, (cu::Stream, unsigned long long*));
ALIKE(cuUserObjectCreate, (cu::UserObject*, void*, cu::HostFunction, unsigned, unsigned));
ALIKE(cuUserObjectRelease, (cu::UserObject, unsigned));
ALIKE(cuThreadExchangeStreamCaptureMode, (cu::CaptureMode*));
ALIKE(cuStreamIsCapturing, (cu::Stream, cu::CaptureStatus*));
ALIKE(cuGraphRetainUserObject, (cu::Graph, cu::UserObject, unsigned, unsigned));

TEST(DriverAbi, MatchesCudaHeader) {
  EXPECT_EQ(cu::kStreamPerThread, CU_STREAM_PER_THREAD);
  SUCCEED() << "checked while compiling against CUDA " << CUDA_VERSION;
}
#endif
