// Types, sizes, and the interfaces that a program gives: logger, error recorder, allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "camshaft/tensorrt/NvInferVersion.h"

#if defined(__has_include)
#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#define CAMSHAFT_TENSORRT_HAS_CUDA 1
#endif
#endif
#if !defined(CAMSHAFT_TENSORRT_HAS_CUDA)
#define CAMSHAFT_TENSORRT_HAS_CUDA 0
extern "C" struct CUstream_st;
typedef CUstream_st* cudaStream_t;  // NOLINT: as CUDA's own header says it
#endif
#if !defined(CAMSHAFT_TENSORRT_HOST)
#define CAMSHAFT_TENSORRT_HOST (!CAMSHAFT_TENSORRT_HAS_CUDA)
#endif
#if !defined(CAMSHAFT_TENSORRT_CUDA)
#define CAMSHAFT_TENSORRT_CUDA CAMSHAFT_TENSORRT_HAS_CUDA
#endif
#if !defined(CAMSHAFT_TENSORRT_RECORDED)
#define CAMSHAFT_TENSORRT_RECORDED 0
#endif

// Each library has its own copy of what is not an interface, whatever else the process has loaded: it may be of another
// version.
#define CAMSHAFT_TENSORRT_OWN __attribute__((visibility("hidden")))

#define TRT_DEPRECATED
#define TRT_DEPRECATED_BECAUSE(reason)
#define TRT_DEPRECATED_ENUM
#define TRT_DEPRECATED_API
#define TRT_NODISCARD [[nodiscard]]
#define TENSORRTAPI __attribute__((visibility("default")))
#define TRTNOEXCEPT
#if NV_TENSORRT_MAJOR >= 10
#define NV_TENSORRT_VERSION_INT(major, minor, patch) ((major)*10000L + (minor)*100L + (patch)*1L)
#else
#define NV_TENSORRT_VERSION_INT(major, minor, patch) ((major)*1000L + (minor)*100L + (patch)*1L)
#endif
#define NV_TENSORRT_VERSION NV_TENSORRT_VERSION_INT(NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR, NV_TENSORRT_PATCH)

extern "C" {
struct cublasContext;
struct cudnnContext;
}

namespace nvinfer1 {

using char_t = char;
using AsciiChar = char_t;

/// How many enumerators an enumeration has.
template <typename T>
constexpr int32_t EnumMax() noexcept;

enum class DataType : int32_t {
  kFLOAT = 0,
  kHALF = 1,
  kINT8 = 2,
  kINT32 = 3,
  kBOOL = 4,
  kUINT8 = 5,
  kFP8 = 6,
  kBF16 = 7,
  kINT64 = 8,
  kINT4 = 9,
  kFP4 = 10,
  kE8M0 = 11,
};
template <>
constexpr int32_t EnumMax<DataType>() noexcept {
  return 12;
}

/// How elements lie in memory. A plugin gets row-major (kLINEAR) where it takes it.
enum class TensorFormat : int32_t {
  kLINEAR = 0,
  kCHW2 = 1,
  kHWC8 = 2,
  kCHW4 = 3,
  kCHW16 = 4,
  kCHW32 = 5,
  kDHWC8 = 6,
  kCDHW32 = 7,
  kHWC = 8,
  kDLA_LINEAR = 9,
  kDLA_HWC4 = 10,
  kHWC16 = 11,
  kDHWC = 12,
};
using PluginFormat = TensorFormat;
template <>
constexpr int32_t EnumMax<TensorFormat>() noexcept {
  return 13;
}

/// The sizes of a tensor; -1 for one that is not known yet.
class Dims64 {
 public:
  static constexpr int32_t MAX_DIMS{8};
  int32_t nbDims;
  int64_t d[MAX_DIMS];
};
class Dims32 {
 public:
  static constexpr int32_t MAX_DIMS{8};
  int32_t nbDims;
  int32_t d[MAX_DIMS];
};
#if NV_TENSORRT_MAJOR >= 10
using Dims = Dims64;
using DimsSize = int64_t;
#else
using Dims = Dims32;
using DimsSize = int32_t;
#endif

namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {
inline Dims dims_of(std::initializer_list<DimsSize> sizes) {
  Dims dims{static_cast<int32_t>(sizes.size()), {}};
  int32_t axis = 0;
  for (const DimsSize size : sizes) dims.d[axis++] = size;
  return dims;
}
}  // namespace CAMSHAFT_TENSORRT_OWN

class Dims2 : public Dims {
 public:
  Dims2() : Dims2(0, 0) {}
  Dims2(DimsSize d0, DimsSize d1) : Dims(camshaft_detail::dims_of({d0, d1})) {}
};
class DimsHW : public Dims2 {
 public:
  DimsHW() = default;
  DimsHW(DimsSize height, DimsSize width) : Dims2(height, width) {}
  DimsSize& h() { return d[0]; }
  DimsSize h() const { return d[0]; }
  DimsSize& w() { return d[1]; }
  DimsSize w() const { return d[1]; }
};
class Dims3 : public Dims {
 public:
  Dims3() : Dims3(0, 0, 0) {}
  Dims3(DimsSize d0, DimsSize d1, DimsSize d2) : Dims(camshaft_detail::dims_of({d0, d1, d2})) {}
};
class Dims4 : public Dims {
 public:
  Dims4() : Dims4(0, 0, 0, 0) {}
  Dims4(DimsSize d0, DimsSize d1, DimsSize d2, DimsSize d3) : Dims(camshaft_detail::dims_of({d0, d1, d2, d3})) {}
};

class Weights {
 public:
  DataType type;
  void const* values;
  int64_t count;
};

enum class APILanguage : int32_t { kCPP = 0, kPYTHON = 1 };
using InterfaceKind = char const*;
class InterfaceInfo {
 public:
  InterfaceKind kind;
  int32_t major;
  int32_t minor;
};

class IVersionedInterface {
 public:
  virtual ~IVersionedInterface() noexcept = default;
  virtual APILanguage getAPILanguage() const noexcept { return APILanguage::kCPP; }
  virtual InterfaceInfo getInterfaceInfo() const noexcept = 0;

 protected:
  IVersionedInterface() = default;
  IVersionedInterface(IVersionedInterface const&) = default;
  IVersionedInterface(IVersionedInterface&&) = default;
  IVersionedInterface& operator=(IVersionedInterface const&) & = default;
  IVersionedInterface& operator=(IVersionedInterface&&) & = default;
};

enum class ErrorCode : int32_t {
  kSUCCESS = 0,
  kUNSPECIFIED_ERROR = 1,
  kINTERNAL_ERROR = 2,
  kINVALID_ARGUMENT = 3,
  kINVALID_CONFIG = 4,
  kFAILED_ALLOCATION = 5,
  kFAILED_INITIALIZATION = 6,
  kFAILED_EXECUTION = 7,
  kFAILED_COMPUTATION = 8,
  kINVALID_STATE = 9,
  kUNSUPPORTED_STATE = 10,
};
template <>
constexpr int32_t EnumMax<ErrorCode>() noexcept {
  return 11;
}

class IErrorRecorder : public IVersionedInterface {
 public:
  using ErrorDesc = char const*;
  using RefCount = int32_t;
  static constexpr size_t kMAX_DESC_LENGTH{127U};
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"IErrorRecorder", 1, 0}; }
  virtual int32_t getNbErrors() const noexcept = 0;
  virtual ErrorCode getErrorCode(int32_t errorIdx) const noexcept = 0;
  virtual ErrorDesc getErrorDesc(int32_t errorIdx) const noexcept = 0;
  virtual bool hasOverflowed() const noexcept = 0;
  virtual void clear() noexcept = 0;
  virtual bool reportError(ErrorCode val, ErrorDesc desc) noexcept = 0;
  virtual RefCount incRefCount() noexcept = 0;
  virtual RefCount decRefCount() noexcept = 0;
};

class ILogger : public IVersionedInterface {
 public:
  enum class Severity : int32_t { kINTERNAL_ERROR = 0, kERROR = 1, kWARNING = 2, kINFO = 3, kVERBOSE = 4 };
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"ILogger", 1, 0}; }
  virtual void log(Severity severity, AsciiChar const* msg) noexcept = 0;
};
template <>
constexpr int32_t EnumMax<ILogger::Severity>() noexcept {
  return 5;
}
class ILoggerFinder {
 public:
  virtual ~ILoggerFinder() noexcept = default;
  /// What overrides it may be noexcept or not, as in TensorRT.
  virtual ILogger* findLogger() = 0;
};

using AllocatorFlags = uint32_t;
class IGpuAllocator : public IVersionedInterface {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"IGpuAllocator", 1, 0}; }
  virtual void* allocate(uint64_t size, uint64_t alignment, AllocatorFlags flags) noexcept = 0;
  virtual bool deallocate(void* memory) noexcept = 0;
};

}  // namespace nvinfer1
