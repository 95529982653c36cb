// The C functions of NVIDIA's libraries that are looked up at run time, declared here so that building needs none of
// their headers.
//
// Enumerations are ints, handles are pointers to nothing in particular: the calling convention is the same.
#pragma once

#include <cstddef>
#include <cstdint>

namespace camshaft::cuda::api {

using Result = int;  ///< CUresult, nvrtcResult: 0 is success
using Device = int;
using Pointer = unsigned long long;  ///< CUdeviceptr: an address in device memory
using Handle = void*;                ///< CUcontext, CUmodule, CUfunction, CUstream, CUevent, nvrtcProgram

enum : Result {
  success = 0,
  error_invalid_value = 1,
  error_out_of_memory = 2,
  error_no_device = 100,
  error_invalid_image = 200,
  error_no_binary = 209,  ///< for this device
  error_not_ready = 600,
};

/// CUdevice_attribute
enum DeviceAttribute : int {
  kilohertz = 13,
  multiprocessors = 16,
  memory_kilohertz = 36,
  memory_bus_bits = 37,
  l2_bytes = 38,
  capability_major = 75,
  capability_minor = 76,
  shared_bytes_per_block = 97,  ///< the most that a block may ask for
};

/// CUfunction_attribute
enum FunctionAttribute : int { most_dynamic_shared_bytes = 8, large_clusters = 14 };

constexpr unsigned stream_non_blocking = 1;  ///< does not wait for the default stream
constexpr unsigned event_without_time = 2;   ///< CUevent_flags
/// CUevent_record_flags: in a recording, a node that marks the time whenever that is launched.
constexpr unsigned event_of_recording = 1;
/// CUpointer_attribute
enum PointerAttribute : int { memory_type = 2, is_managed = 8, device_ordinal = 9 };
/// CUmemorytype
enum MemoryType : unsigned { of_host = 1, of_device = 2 };
/// CUstreamCaptureMode: calls that cannot be recorded fail in the thread that records, and in no other.
constexpr int capture_of_this_thread = 1, capture_of_nobody = 2;

/// CUlaunchAttribute
struct LaunchAttribute {
  enum Kind : int { cluster = 4, programmatic_serialization = 6 };
  int kind = 0;
  int padding = 0;
  union {
    unsigned cluster_size[3];
    int is_allowed;
    char bytes[64];
  };
};

/// CUlaunchConfig
struct LaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1, block_x = 1, block_y = 1, block_z = 1, shared_bytes = 0;
  Handle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

/// CUmemAllocationProp: of memory on a device that is mapped to addresses, for nobody else.
struct MemoryProperties {
  int type = 1;  ///< CU_MEM_ALLOCATION_TYPE_PINNED, the only one
  int handle_types = 0;
  int location_type = 1;  ///< CU_MEM_LOCATION_TYPE_DEVICE
  int device = 0;
  void* win32_data = nullptr;
  unsigned char flags[8] = {};
};

/// CUmemAccessDesc
struct MemoryAccess {
  int location_type = 1;
  int device = 0;
  int flags = 3;  ///< CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};

/// CUgraphNodeType
constexpr int node_of_kernel = 0;

/// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNode {
  Handle function = nullptr;
  unsigned grid_x = 1, grid_y = 1, grid_z = 1, block_x = 1, block_y = 1, block_z = 1, shared_bytes = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  Handle kernel = nullptr, context = nullptr;
};

// X(name, parameters): every function returns Result.
#define CAMSHAFT_CUDA_DRIVER(X)                                                                           \
  X(cuInit, (unsigned flags))                                                                             \
  X(cuDriverGetVersion, (int* version))                                                                   \
  X(cuGetErrorName, (Result error, const char** name))                                                    \
  X(cuGetErrorString, (Result error, const char** text))                                                  \
  X(cuDeviceGetCount, (int* count))                                                                       \
  X(cuDeviceGet, (Device * device, int ordinal))                                                          \
  X(cuDeviceGetName, (char* name, int length, Device device))                                             \
  X(cuDeviceGetPCIBusId, (char* id, int length, Device device))                                           \
  X(cuDeviceTotalMem_v2, (size_t * bytes, Device device))                                                 \
  X(cuDeviceGetAttribute, (int* value, int attribute, Device device))                                     \
  X(cuDevicePrimaryCtxRetain, (Handle * context, Device device))                                          \
  X(cuDevicePrimaryCtxRelease_v2, (Device device))                                                        \
  X(cuCtxPushCurrent_v2, (Handle context))                                                                \
  X(cuCtxPopCurrent_v2, (Handle * context))                                                               \
  X(cuCtxGetDevice, (Device * device))                                                                    \
  X(cuStreamCreate, (Handle * stream, unsigned flags))                                                    \
  X(cuStreamDestroy_v2, (Handle stream))                                                                  \
  X(cuStreamQuery, (Handle stream))                                                                       \
  X(cuStreamSynchronize, (Handle stream))                                                                 \
  X(cuStreamWaitEvent, (Handle stream, Handle event, unsigned flags))                                     \
  X(cuStreamIsCapturing, (Handle stream, int* status))                                                    \
  X(cuStreamGetCtx, (Handle stream, Handle * context))                                                    \
  X(cuEventCreate, (Handle * event, unsigned flags))                                                      \
  X(cuEventRecord, (Handle event, Handle stream))                                                         \
  X(cuEventRecordWithFlags, (Handle event, Handle stream, unsigned flags))                                \
  X(cuEventQuery, (Handle event))                                                                         \
  X(cuEventSynchronize, (Handle event))                                                                   \
  X(cuEventDestroy_v2, (Handle event))                                                                    \
  X(cuEventElapsedTime, (float* milliseconds, Handle from, Handle to))                                    \
  X(cuStreamBeginCapture_v2, (Handle stream, int mode))                                                   \
  X(cuStreamEndCapture, (Handle stream, Handle * graph))                                                  \
  X(cuThreadExchangeStreamCaptureMode, (int* mode))                                                       \
  X(cuGraphGetNodes, (Handle graph, Handle * nodes, size_t * count))                                      \
  X(cuGraphNodeGetType, (Handle node, int* type))                                                         \
  X(cuGraphKernelNodeGetParams_v2, (Handle node, KernelNode * parameters))                                \
  X(cuGraphExecKernelNodeSetParams_v2, (Handle executable, Handle node, const KernelNode* parameters))    \
  X(cuGraphInstantiateWithFlags, (Handle * executable, Handle graph, unsigned long long flags))           \
  X(cuGraphLaunch, (Handle executable, Handle stream))                                                    \
  X(cuGraphExecDestroy, (Handle executable))                                                              \
  X(cuGraphDestroy, (Handle graph))                                                                       \
  X(cuMemGetInfo_v2, (size_t * free, size_t * total))                                                     \
  X(cuMemAlloc_v2, (Pointer * memory, size_t bytes))                                                      \
  X(cuMemFree_v2, (Pointer memory))                                                                       \
  X(cuPointerGetAttributes, (unsigned count, int* attributes, void** values, Pointer memory))             \
  X(cuMemAllocHost_v2, (void** memory, size_t bytes))                                                     \
  X(cuMemFreeHost, (void* memory))                                                                        \
  X(cuMemGetAllocationGranularity, (size_t * bytes, const MemoryProperties* properties, int option))      \
  X(cuMemCreate, (uint64_t * memory, size_t bytes, const MemoryProperties* properties, uint64_t flags))   \
  X(cuMemRelease, (uint64_t memory))                                                                      \
  X(cuMemAddressReserve, (Pointer * address, size_t bytes, size_t alignment, Pointer at, uint64_t flags)) \
  X(cuMemAddressFree, (Pointer address, size_t bytes))                                                    \
  X(cuMemMap, (Pointer address, size_t bytes, size_t offset, uint64_t memory, uint64_t flags))            \
  X(cuMemUnmap, (Pointer address, size_t bytes))                                                          \
  X(cuMemSetAccess, (Pointer address, size_t bytes, const MemoryAccess* access, size_t count))            \
  X(cuMemcpyHtoDAsync_v2, (Pointer to, const void* from, size_t bytes, Handle stream))                    \
  X(cuMemcpyDtoHAsync_v2, (void* to, Pointer from, size_t bytes, Handle stream))                          \
  X(cuMemcpyDtoDAsync_v2, (Pointer to, Pointer from, size_t bytes, Handle stream))                        \
  X(cuMemcpyPeerAsync,                                                                                    \
    (Pointer to, Handle to_context, Pointer from, Handle from_context, size_t bytes, Handle stream))      \
  X(cuModuleLoadData, (Handle * module, const void* image))                                               \
  X(cuModuleUnload, (Handle module))                                                                      \
  X(cuModuleGetFunction, (Handle * function, Handle module, const char* name))                            \
  X(cuFuncSetAttribute, (Handle function, int attribute, int value))                                      \
  X(cuOccupancyMaxActiveClusters, (int* clusters, Handle function, const LaunchConfig* config))           \
  X(cuLaunchKernelEx, (const LaunchConfig* config, Handle function, void** arguments, void** extra))

/// CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill
constexpr int tensor_of_u8 = 0, tensor_of_u16 = 1, not_interleaved = 0, swizzle_of_128_bytes = 3,
              cache_lines_of_256_bytes = 3, zeros_outside = 0;

// The same of functions that drivers before CUDA 12.3 lack, the first before 12.4: null there.
#define CAMSHAFT_CUDA_NEWER_DRIVER(X)                                                                                 \
  X(cuFuncGetParamInfo, (Handle function, size_t index, size_t * offset, size_t * bytes))                             \
  X(cuStreamGetCaptureInfo_v3, (Handle stream, int* status, uint64_t* id, Handle* graph, const Handle** dependencies, \
                                const void** edges, size_t* count))                                                   \
  X(cuTensorMapEncodeTiled,                                                                                           \
    (void* map, int type, uint32_t rank, void* data, const uint64_t* sizes, const uint64_t* byte_strides,             \
     const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle, int cache_lines, int outside))

#define CAMSHAFT_CUDA_NVRTC(X)                                                              \
  X(nvrtcVersion, (int* major, int* minor))                                                 \
  X(nvrtcGetNumSupportedArchs, (int* count))                                                \
  X(nvrtcGetSupportedArchs, (int* archs))                                                   \
  X(nvrtcCreateProgram, (Handle * program, const char* text, const char* name, int headers, \
                         const char* const* header_texts, const char* const* header_names)) \
  X(nvrtcDestroyProgram, (Handle * program))                                                \
  X(nvrtcCompileProgram, (Handle program, int options, const char* const* option))          \
  X(nvrtcGetCUBINSize, (Handle program, size_t * bytes))                                    \
  X(nvrtcGetCUBIN, (Handle program, char* cubin))                                           \
  X(nvrtcGetProgramLogSize, (Handle program, size_t * bytes))                               \
  X(nvrtcGetProgramLog, (Handle program, char* log))

#define CAMSHAFT_CUDA_MEMBER(name, parameters) Result(*name) parameters = nullptr;

/// libcuda.so.1, which comes with the driver.
struct Driver {
  CAMSHAFT_CUDA_DRIVER(CAMSHAFT_CUDA_MEMBER)
  CAMSHAFT_CUDA_NEWER_DRIVER(CAMSHAFT_CUDA_MEMBER)
};

/// libnvrtc.so: the compiler from CUDA C++ text to machine code. Works without a device.
struct Nvrtc {
  CAMSHAFT_CUDA_NVRTC(CAMSHAFT_CUDA_MEMBER)
};

#undef CAMSHAFT_CUDA_MEMBER

}  // namespace camshaft::cuda::api
