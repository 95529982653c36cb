#include "server/core/cuda_memory.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

// The names and types of the driver's own (cuda.h, which no package of Debian has): every function gives 0 for success.
using CudaAddress = unsigned long long;
using CudaHandle = void*;
struct CudaIpcHandle {
  char bytes[64];
};
constexpr unsigned open_lazily = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag there is

struct CudaDriver {
  int (*cuInit)(unsigned) = nullptr;
  int (*cuGetErrorName)(int, const char**) = nullptr;
  int (*cuDeviceGetCount)(int*) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(CudaHandle*, int) = nullptr;
  int (*cuDevicePrimaryCtxRelease_v2)(int) = nullptr;
  int (*cuCtxPushCurrent_v2)(CudaHandle) = nullptr;
  int (*cuCtxPopCurrent_v2)(CudaHandle*) = nullptr;
  int (*cuStreamSynchronize)(CudaHandle) = nullptr;
  int (*cuMemGetAddressRange_v2)(CudaAddress*, size_t*, CudaAddress) = nullptr;
  int (*cuMemcpyHtoDAsync_v2)(CudaAddress, const void*, size_t, CudaHandle) = nullptr;
  int (*cuMemcpyDtoHAsync_v2)(void*, CudaAddress, size_t, CudaHandle) = nullptr;
  int (*cuIpcOpenMemHandle_v2)(CudaAddress*, CudaIpcHandle, unsigned) = nullptr;
  int (*cuIpcCloseMemHandle)(CudaAddress) = nullptr;
  int devices = 0;

  CudaDriver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const bool found = load(library, "cuInit", cuInit) && load(library, "cuGetErrorName", cuGetErrorName) &&
                       load(library, "cuDeviceGetCount", cuDeviceGetCount) &&
                       load(library, "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain) &&
                       load(library, "cuDevicePrimaryCtxRelease_v2", cuDevicePrimaryCtxRelease_v2) &&
                       load(library, "cuCtxPushCurrent_v2", cuCtxPushCurrent_v2) &&
                       load(library, "cuCtxPopCurrent_v2", cuCtxPopCurrent_v2) &&
                       load(library, "cuStreamSynchronize", cuStreamSynchronize) &&
                       load(library, "cuMemGetAddressRange_v2", cuMemGetAddressRange_v2) &&
                       load(library, "cuMemcpyHtoDAsync_v2", cuMemcpyHtoDAsync_v2) &&
                       load(library, "cuMemcpyDtoHAsync_v2", cuMemcpyDtoHAsync_v2) &&
                       load(library, "cuIpcOpenMemHandle_v2", cuIpcOpenMemHandle_v2) &&
                       load(library, "cuIpcCloseMemHandle", cuIpcCloseMemHandle);
    if (!found || cuInit(0) != 0 || cuDeviceGetCount(&devices) != 0) devices = 0;
  }

  std::string name_of(int result) const {
    const char* name = nullptr;
    return cuGetErrorName(result, &name) == 0 && name != nullptr ? name : "error " + std::to_string(result);
  }

 private:
  template <class Function>
  static bool load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }
};

const CudaDriver& cuda_driver() {
  static const CudaDriver& driver = *new CudaDriver;  // stays: regions may be let go of while the process ends
  return driver;
}

// A GPU's primary context, which is that of engines too, as the calling thread's.
class CurrentContext {
 public:
  explicit CurrentContext(int32_t ordinal) : ordinal_(ordinal) {
    CudaHandle context = nullptr;
    result_ = cuda_driver().cuDevicePrimaryCtxRetain(&context, ordinal_);
    if (result_ != 0) return;
    result_ = cuda_driver().cuCtxPushCurrent_v2(context);
    if (result_ != 0) cuda_driver().cuDevicePrimaryCtxRelease_v2(ordinal_);
  }
  ~CurrentContext() {
    if (result_ != 0) return;
    CudaHandle popped = nullptr;
    cuda_driver().cuCtxPopCurrent_v2(&popped);
    cuda_driver().cuDevicePrimaryCtxRelease_v2(ordinal_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  int result() const { return result_; }

 private:
  int32_t ordinal_;
  int result_ = 0;
};

CudaAddress address_of(const std::byte* memory) {
  return reinterpret_cast<CudaAddress>(memory);
}

// With the GPU's context; what is asked for comes before whatever is asked of the default stream later.
template <class Copy>
void copy_and_wait(Device device, size_t bytes, const char* direction, const Copy& copy) {
  const CurrentContext context(device.ordinal);
  int result = context.result();
  if (result == 0) result = copy();
  if (result == 0) result = cuda_driver().cuStreamSynchronize(nullptr);
  if (result != 0)
    throw ServerError(StatusCode::internal, "copying " + std::to_string(bytes) + " bytes " + direction + " " +
                                                to_string(device) + ": " + cuda_driver().name_of(result));
}

}  // namespace

bool has_cuda_device() {
  return cuda_driver().devices > 0;
}

CudaAllocation::CudaAllocation(int64_t device, std::string_view handle) : ordinal_(static_cast<int32_t>(device)) {
  const CudaDriver& driver = cuda_driver();
  if (driver.devices == 0)
    throw ServerError(StatusCode::unsupported,
                      "this server has no GPU whose memory could be shared; use system shared memory");
  if (device < 0 || device >= driver.devices)
    throw ServerError(StatusCode::invalid_argument, "there is no GPU " + std::to_string(device) + ", there are " +
                                                        std::to_string(driver.devices) + ", from 0 on");
  CudaIpcHandle opened{};
  if (handle.size() != sizeof(opened.bytes))
    throw ServerError(StatusCode::invalid_argument, "a raw handle is the " + std::to_string(sizeof(opened.bytes)) +
                                                        " bytes of a cudaIpcMemHandle_t, it has " +
                                                        std::to_string(handle.size()));
  std::memcpy(opened.bytes, handle.data(), handle.size());
  const CurrentContext context(ordinal_);
  CudaAddress begin = 0, base = 0;
  size_t size = 0;
  int result = context.result();
  if (result == 0) result = driver.cuIpcOpenMemHandle_v2(&begin, opened, open_lazily);
  if (result != 0)
    throw ServerError(StatusCode::invalid_argument,
                      "GPU " + std::to_string(device) + " does not open the raw handle: " + driver.name_of(result));
  result = driver.cuMemGetAddressRange_v2(&base, &size, begin);
  if (result != 0) {
    driver.cuIpcCloseMemHandle(begin);
    throw ServerError(StatusCode::internal, "the size of memory on GPU " + std::to_string(device) +
                                                " cannot be told: " + driver.name_of(result));
  }
  begin_ = reinterpret_cast<std::byte*>(begin);
  size_ = size - (begin - base);
}

CudaAllocation::~CudaAllocation() {
  const CurrentContext context(ordinal_);
  if (context.result() == 0) cuda_driver().cuIpcCloseMemHandle(address_of(begin_));
}

void copy_to_host(std::byte* to, std::span<const std::byte> from, Device device) {
  if (from.empty()) return;
  copy_and_wait(device, from.size(), "from",
                [&] { return cuda_driver().cuMemcpyDtoHAsync_v2(to, address_of(from.data()), from.size(), nullptr); });
}

void copy_to_device(std::byte* to, Device device, std::span<const std::byte> from) {
  if (from.empty()) return;
  copy_and_wait(device, from.size(), "to",
                [&] { return cuda_driver().cuMemcpyHtoDAsync_v2(address_of(to), from.data(), from.size(), nullptr); });
}

}  // namespace camshaft::server
