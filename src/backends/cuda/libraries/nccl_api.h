// The C functions of NCCL that are looked up at run time; see c_api.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/driver/c_api.h"

namespace camshaft::cuda::api {

/// ncclUniqueId
struct NcclId {
  char bytes[128];
};

/// ncclDataType_t
enum NcclType : int {
  nccl_i8 = 0,
  nccl_u8 = 1,
  nccl_i32 = 2,
  nccl_u32 = 3,
  nccl_i64 = 4,
  nccl_u64 = 5,
  nccl_f16 = 6,
  nccl_f32 = 7,
  nccl_f64 = 8,
  nccl_bf16 = 9,
};

/// ncclRedOp_t
enum NcclReduction : int { nccl_sum = 0, nccl_prod = 1, nccl_max = 2, nccl_min = 3, nccl_avg = 4 };

/// ncclResult_t beside success
enum NcclResult : Result {
  nccl_system_error = 2,
  nccl_internal_error = 3,
  nccl_invalid_argument = 4,
  nccl_invalid_usage = 5,
  nccl_remote_error = 6,
};

// X(name, parameters): every function returns Result. Streams are those of the device that is current when a rank's
// communicator is made.
#define CAMSHAFT_CUDA_NCCL(X)                                                                                          \
  X(ncclGetVersion, (int* version))                                                                                    \
  X(ncclGetUniqueId, (NcclId * id))                                                                                    \
  X(ncclCommInitRank, (Handle * communicator, int ranks, NcclId id, int rank))                                         \
  X(ncclCommAbort, (Handle communicator))                                                                              \
  X(ncclCommGetAsyncError, (Handle communicator, Result * error))                                                      \
  X(ncclAllReduce, (const void* x, void* y, size_t count, NcclType type, NcclReduction reduction, Handle communicator, \
                    Handle stream))                                                                                    \
  X(ncclAllGather, (const void* x, void* y, size_t count, NcclType type, Handle communicator, Handle stream))          \
  X(ncclReduceScatter, (const void* x, void* y, size_t count, NcclType type, NcclReduction reduction,                  \
                        Handle communicator, Handle stream))                                                           \
  X(ncclBroadcast,                                                                                                     \
    (const void* x, void* y, size_t count, NcclType type, int root, Handle communicator, Handle stream))               \
  X(ncclSend, (const void* x, size_t count, NcclType type, int to, Handle communicator, Handle stream))                \
  X(ncclRecv, (void* y, size_t count, NcclType type, int from, Handle communicator, Handle stream))                    \
  X(ncclGroupStart, ())                                                                                                \
  X(ncclGroupEnd, ())

/// libnccl.so: what ranks do together.
struct Nccl {
#define CAMSHAFT_CUDA_MEMBER(name, parameters) Result(*name) parameters = nullptr;
  CAMSHAFT_CUDA_NCCL(CAMSHAFT_CUDA_MEMBER)
#undef CAMSHAFT_CUDA_MEMBER
  const char* (*ncclGetErrorString)(Result result) = nullptr;
};

}  // namespace camshaft::cuda::api
