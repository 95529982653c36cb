// The declarations of c_api.h against NVIDIA's own, where these are: the compiler does the work.
#include "cuda/c_api.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if __has_include(<nvrtc.h>)
#include <nvrtc.h>
#endif

namespace camshaft::cuda::api {
namespace {

// Structs of ours that stand for theirs; their layout is compared below.
template <class Ours, class Theirs>
constexpr bool is_same_struct = false;
#ifdef CUDA_VERSION
template <>
constexpr bool is_same_struct<LaunchConfig, CUlaunchConfig> = true;
#endif

// Whether a parameter is passed in the same way: handles are pointers to anything, enumerations integers.
template <class Ours, class Theirs>
constexpr bool same_value() {
  if constexpr (is_same_struct<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using A = std::remove_cv_t<std::remove_pointer_t<Ours>>;
    using B = std::remove_cv_t<std::remove_pointer_t<Theirs>>;
    constexpr bool is_handle = std::is_void_v<A> && (std::is_void_v<B> || std::is_class_v<B>);
    if constexpr (is_handle) return true;
    if constexpr (!is_handle && !std::is_void_v<A> && !std::is_void_v<B>) return same_value<A, B>();
    return is_handle;
  } else {
    constexpr auto is_number = [](auto* t) {
      using T = std::remove_pointer_t<decltype(t)>;
      return std::is_integral_v<T> || std::is_enum_v<T>;
    };
    return is_number(static_cast<Ours*>(nullptr)) && is_number(static_cast<Theirs*>(nullptr)) &&
           sizeof(Ours) == sizeof(Theirs);
  }
}

template <class Ours, class Theirs>
struct SameFunction : std::false_type {};
template <class R, class... P, class S, class... Q>
requires(sizeof...(P) == sizeof...(Q)) struct SameFunction<R (*)(P...), S (*)(Q...)>
    : std::bool_constant<same_value<R, S>() && (same_value<P, Q>() && ...)> {
};

#define CAMSHAFT_COMPARE(name, parameters)                                    \
  static_assert(SameFunction<Result(*) parameters, decltype(&::name)>::value, \
                #name " is declared otherwise in NVIDIA's headers");

#ifdef CUDA_VERSION
CAMSHAFT_CUDA_DRIVER(CAMSHAFT_COMPARE)
static_assert(int{success} == CUDA_SUCCESS && int{error_out_of_memory} == CUDA_ERROR_OUT_OF_MEMORY &&
              int{error_no_device} == CUDA_ERROR_NO_DEVICE);
static_assert(int{multiprocessors} == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              int{l2_bytes} == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE &&
              int{capability_major} == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              int{capability_minor} == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
              int{shared_bytes_per_block} == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(int{most_dynamic_shared_bytes} == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
              stream_non_blocking == CU_STREAM_NON_BLOCKING &&
              capture_of_this_thread == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig) && sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute) &&
              offsetof(LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX) &&
              offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes) &&
              offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream) &&
              offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs) &&
              offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs) &&
              offsetof(LaunchAttribute, cluster_size) == offsetof(CUlaunchAttribute, value));
static_assert(int{LaunchAttribute::cluster} == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
              int{LaunchAttribute::programmatic_serialization} ==
                  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
TEST(CApi, OfTheDriver) {}
#else
TEST(CApi, OfTheDriver) {
  GTEST_SKIP() << "cuda.h was not there when this was built";
}
#endif

#if __has_include(<nvrtc.h>)
CAMSHAFT_CUDA_NVRTC(CAMSHAFT_COMPARE)
TEST(CApi, OfTheCompiler) {}
#else
TEST(CApi, OfTheCompiler) {
  GTEST_SKIP() << "nvrtc.h was not there when this was built";
}
#endif

}  // namespace
}  // namespace camshaft::cuda::api
