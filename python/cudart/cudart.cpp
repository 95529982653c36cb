// What programs beside TensorRT call of CUDA's runtime, where there is no GPU: device memory is memory of the host, and
// streams are done with their work when a call returns. Signatures and numbers of errors are those that CUDA's runtime
// documents. Loaded by name in its place (camshaft.tensorrt.install), never linked.
#include <sys/sysinfo.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace {

enum Status : int {
  success = 0,
  invalid_value = 1,
  memory_allocation = 2,
  invalid_device = 101,
  invalid_resource_handle = 400,
};

constexpr size_t alignment = 256;  // what cudaMalloc promises

struct Event {
  std::chrono::steady_clock::time_point recorded;
  bool is_recorded = false;
};

std::mutex mutex;
std::map<uintptr_t, size_t> allocations;  // bytes by address
std::set<const void*> streams;
std::set<const Event*> events;
thread_local int last_error = success;

int result(int status) {
  if (status != success) last_error = status;
  return status;
}

int allocate(void** address, size_t bytes) {
  if (address == nullptr) return result(invalid_value);
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded < bytes) return result(memory_allocation);
  *address = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (*address == nullptr) return result(memory_allocation);
  const std::lock_guard lock(mutex);
  allocations[reinterpret_cast<uintptr_t>(*address)] = rounded;
  return success;
}

int release(void* address) {
  if (address == nullptr) return success;
  {
    const std::lock_guard lock(mutex);
    if (allocations.erase(reinterpret_cast<uintptr_t>(address)) == 0) return result(invalid_value);
  }
  std::free(address);
  return success;
}

/// Memory that was allocated here is not read or written beyond its end; other memory is the caller's.
bool fits(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex);
  auto after = allocations.upper_bound(begin);
  if (after == allocations.begin()) return true;
  const auto& [start, size] = *--after;
  return begin >= start + size || bytes <= start + size - begin;
}

int copy(void* to, const void* from, size_t bytes, int kind) {
  if (bytes == 0) return success;
  if (to == nullptr || from == nullptr || kind < 0 || kind > 4 || !fits(to, bytes) || !fits(from, bytes))
    return result(invalid_value);
  std::memmove(to, from, bytes);
  return success;
}

int fill(void* address, int value, size_t bytes) {
  if (bytes == 0) return success;
  if (address == nullptr || !fits(address, bytes)) return result(invalid_value);
  std::memset(address, value, bytes);
  return success;
}

int create_stream(void** stream) {
  if (stream == nullptr) return result(invalid_value);
  *stream = new char;
  const std::lock_guard lock(mutex);
  streams.insert(*stream);
  return success;
}

bool is_stream(const void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return true;  // the default ones
  const std::lock_guard lock(mutex);
  return streams.count(stream) != 0;
}

int stream_done(const void* stream) {
  return result(is_stream(stream) ? success : invalid_resource_handle);
}

int create_event(Event** event) {
  if (event == nullptr) return result(invalid_value);
  *event = new Event;
  const std::lock_guard lock(mutex);
  events.insert(*event);
  return success;
}

bool is_event(const Event* event) {
  const std::lock_guard lock(mutex);
  return events.count(event) != 0;
}

int event_done(const Event* event) {
  return result(is_event(event) ? success : invalid_resource_handle);
}

int write(int* to, int value) {
  if (to == nullptr) return result(invalid_value);
  *to = value;
  return success;
}

}  // namespace

#define STAND_IN extern "C" __attribute__((visibility("default")))

STAND_IN int cudaMalloc(void** address, size_t bytes) {
  return allocate(address, bytes);
}
STAND_IN int cudaMallocAsync(void** address, size_t bytes, void*) {
  return allocate(address, bytes);
}
STAND_IN int cudaMallocManaged(void** address, size_t bytes, unsigned) {
  return allocate(address, bytes);
}
STAND_IN int cudaMallocHost(void** address, size_t bytes) {
  return allocate(address, bytes);
}
STAND_IN int cudaHostAlloc(void** address, size_t bytes, unsigned) {
  return allocate(address, bytes);
}
STAND_IN int cudaFree(void* address) {
  return release(address);
}
STAND_IN int cudaFreeAsync(void* address, void*) {
  return release(address);
}
STAND_IN int cudaFreeHost(void* address) {
  return release(address);
}
/// Not CUDA's: whether so many bytes from an address on are not beyond the end of memory that was allocated here.
STAND_IN int cudaStandInFits(const void* address, size_t bytes) {
  return fits(address, bytes) ? success : invalid_value;
}
STAND_IN int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  return copy(to, from, bytes, kind);
}
STAND_IN int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  return is_stream(stream) ? copy(to, from, bytes, kind) : result(invalid_resource_handle);
}
STAND_IN int cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                          int kind) {
  if (width > to_pitch || width > from_pitch) return result(invalid_value);
  for (size_t row = 0; row < height; ++row) {
    const int status =
        copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width, kind);
    if (status != success) return status;
  }
  return success;
}
STAND_IN int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                               size_t height, int kind, void* stream) {
  return is_stream(stream) ? cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind)
                           : result(invalid_resource_handle);
}
STAND_IN int cudaHostRegister(void* address, size_t, unsigned) {
  return result(address != nullptr ? success : invalid_value);
}
STAND_IN int cudaHostUnregister(void* address) {
  return result(address != nullptr ? success : invalid_value);
}
STAND_IN int cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  if (device == nullptr || host == nullptr) return result(invalid_value);
  *device = host;
  return success;
}
STAND_IN int cudaMemset(void* address, int value, size_t bytes) {
  return fill(address, value, bytes);
}
STAND_IN int cudaMemsetAsync(void* address, int value, size_t bytes, void*) {
  return fill(address, value, bytes);
}
STAND_IN int cudaMemGetInfo(size_t* free, size_t* total) {
  struct sysinfo info {};
  if (free == nullptr || total == nullptr || sysinfo(&info) != 0) return result(invalid_value);
  *free = info.freeram * info.mem_unit;
  *total = info.totalram * info.mem_unit;
  return success;
}

STAND_IN int cudaStreamCreate(void** stream) {
  return create_stream(stream);
}
STAND_IN int cudaStreamCreateWithFlags(void** stream, unsigned) {
  return create_stream(stream);
}
STAND_IN int cudaStreamCreateWithPriority(void** stream, unsigned, int) {
  return create_stream(stream);
}
STAND_IN int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = 0;
  return success;
}
STAND_IN int cudaStreamDestroy(void* stream) {
  {
    const std::lock_guard lock(mutex);
    if (streams.erase(stream) == 0) return result(invalid_resource_handle);
  }
  delete static_cast<char*>(stream);
  return success;
}
STAND_IN int cudaStreamSynchronize(void* stream) {
  return stream_done(stream);
}
STAND_IN int cudaStreamQuery(void* stream) {
  return stream_done(stream);
}
STAND_IN int cudaStreamWaitEvent(void* stream, void* event, unsigned) {
  return is_stream(stream) ? event_done(static_cast<Event*>(event)) : result(invalid_resource_handle);
}

STAND_IN int cudaEventCreate(void** event) {
  return create_event(reinterpret_cast<Event**>(event));
}
STAND_IN int cudaEventCreateWithFlags(void** event, unsigned) {
  return create_event(reinterpret_cast<Event**>(event));
}
STAND_IN int cudaEventRecord(void* event, void* stream) {
  auto* recorded = static_cast<Event*>(event);
  if (!is_event(recorded) || !is_stream(stream)) return result(invalid_resource_handle);
  recorded->recorded = std::chrono::steady_clock::now();
  recorded->is_recorded = true;
  return success;
}
STAND_IN int cudaEventSynchronize(void* event) {
  return event_done(static_cast<Event*>(event));
}
STAND_IN int cudaEventQuery(void* event) {
  return event_done(static_cast<Event*>(event));
}
STAND_IN int cudaEventElapsedTime(float* milliseconds, void* begin, void* end) {
  const auto *first = static_cast<Event*>(begin), *last = static_cast<Event*>(end);
  if (milliseconds == nullptr) return result(invalid_value);
  if (!is_event(first) || !is_event(last) || !first->is_recorded || !last->is_recorded)
    return result(invalid_resource_handle);
  *milliseconds = std::chrono::duration<float, std::milli>(last->recorded - first->recorded).count();
  return success;
}
STAND_IN int cudaEventDestroy(void* event) {
  {
    const std::lock_guard lock(mutex);
    if (events.erase(static_cast<Event*>(event)) == 0) return result(invalid_resource_handle);
  }
  delete static_cast<Event*>(event);
  return success;
}

STAND_IN int cudaDeviceSynchronize() {
  return success;
}
STAND_IN int cudaDeviceReset() {
  return success;
}
STAND_IN int cudaGetDevice(int* device) {
  return write(device, 0);
}
STAND_IN int cudaGetDeviceCount(int* count) {
  return write(count, 1);
}
STAND_IN int cudaSetDevice(int device) {
  return result(device == 0 ? success : invalid_device);
}
/// A core is a multiprocessor of one thread; what a processor has nothing of is 0, as its compute capability.
STAND_IN int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  constexpr int max_threads_per_block = 1, warp_size = 10, multiprocessors = 16, integrated = 18,
                max_threads_per_multiprocessor = 39;
  if (device != 0) return result(invalid_device);
  switch (attribute) {
    case max_threads_per_block:
    case warp_size:
    case integrated:
    case max_threads_per_multiprocessor:
      return write(value, 1);
    case multiprocessors:
      return write(value, get_nprocs());
    default:
      return write(value, 0);
  }
}
STAND_IN int cudaProfilerStart() {
  return success;
}
STAND_IN int cudaProfilerStop() {
  return success;
}
STAND_IN int cudaRuntimeGetVersion(int* version) {
  return write(version, 12000);
}
STAND_IN int cudaDriverGetVersion(int* version) {
  return write(version, 12000);
}
STAND_IN int cudaPeekAtLastError() {
  return last_error;
}
STAND_IN int cudaGetLastError() {
  const int error = last_error;
  last_error = success;
  return error;
}
STAND_IN const char* cudaGetErrorName(int status) {
  switch (status) {
    case success:
      return "cudaSuccess";
    case invalid_value:
      return "cudaErrorInvalidValue";
    case memory_allocation:
      return "cudaErrorMemoryAllocation";
    case invalid_device:
      return "cudaErrorInvalidDevice";
    case invalid_resource_handle:
      return "cudaErrorInvalidResourceHandle";
    default:
      return "cudaErrorUnknown";
  }
}
STAND_IN const char* cudaGetErrorString(int status) {
  switch (status) {
    case success:
      return "no error";
    case invalid_value:
      return "invalid argument, or memory beyond the end of an allocation";
    case memory_allocation:
      return "out of memory";
    case invalid_device:
      return "there is no such device";
    case invalid_resource_handle:
      return "no stream or event that exists";
    default:
      return "unknown error";
  }
}
