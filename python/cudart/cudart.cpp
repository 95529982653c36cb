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
  memory_already_registered = 712,
  memory_not_registered = 713,
};

constexpr size_t alignment = 256;  // what cudaMalloc promises

/// What cudaPointerGetAttributes says of memory, by the numbers of cudaMemoryType.
enum Kind : int { unregistered = 0, of_host = 1, of_device = 2, managed = 3 };

struct Allocation {
  size_t bytes = 0;
  Kind kind = of_device;
};

struct Event {
  std::chrono::steady_clock::time_point recorded;
  bool is_recorded = false;
};

std::mutex mutex;
std::map<uintptr_t, Allocation> allocations;  // by address
std::map<uintptr_t, size_t> registered;       // bytes of memory of the caller's, by address
std::set<const void*> streams;
std::set<const Event*> events;
thread_local int last_error = success;

int result(int status) {
  if (status != success) last_error = status;
  return status;
}

int allocate(void** address, size_t bytes, Kind kind = of_device) {
  if (address == nullptr) return result(invalid_value);
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded < bytes) return result(memory_allocation);
  *address = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (*address == nullptr) return result(memory_allocation);
  const std::lock_guard lock(mutex);
  allocations[reinterpret_cast<uintptr_t>(*address)] = {rounded, kind};
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

/// The entry that an address lies in; the end where there is none. The lock is held.
template <class Map, class Bytes>
typename Map::const_iterator containing(const Map& map, uintptr_t address, const Bytes& bytes) {
  auto after = map.upper_bound(address);
  if (after == map.begin()) return map.end();
  --after;
  return address < after->first + bytes(after->second) ? after : map.end();
}

/// The allocation that an address lies in.
std::map<uintptr_t, Allocation>::const_iterator allocation_of(uintptr_t address) {
  return containing(allocations, address, [](const Allocation& allocation) { return allocation.bytes; });
}

Kind kind_of(const void* address) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex);
  const auto found = allocation_of(begin);
  if (found != allocations.end()) return found->second.kind;
  const bool is_registered = containing(registered, begin, [](size_t bytes) { return bytes; }) != registered.end();
  return is_registered ? of_host : unregistered;
}

/// Memory that was allocated here is not read or written beyond its end; other memory is the caller's.
bool fits(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex);
  const auto found = allocation_of(begin);
  return found == allocations.end() || bytes <= found->first + found->second.bytes - begin;
}

/// The same of rows, which begin every `pitch` bytes: of the whole, as the last ones may begin beyond the end.
bool rows_fit(const void* address, size_t pitch, size_t width, size_t height) {
  if (width == 0 || height == 0) return true;
  size_t before = 0;
  return width <= pitch && !__builtin_mul_overflow(pitch, height - 1, &before) && width <= SIZE_MAX - before &&
         fits(address, before + width);
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
  return allocate(address, bytes, managed);
}
STAND_IN int cudaMallocHost(void** address, size_t bytes) {
  return allocate(address, bytes, of_host);
}
STAND_IN int cudaHostAlloc(void** address, size_t bytes, unsigned) {
  return allocate(address, bytes, of_host);
}
STAND_IN int cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr) return result(invalid_value);
  *pitch = (width + alignment - 1) / alignment * alignment;
  if (*pitch < width || (height != 0 && *pitch > SIZE_MAX / height)) return result(memory_allocation);
  return allocate(address, *pitch * height);
}
/// cudaPointerAttributes.
struct PointerAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
};
STAND_IN int cudaPointerGetAttributes(PointerAttributes* attributes, const void* address) {
  constexpr int no_device = -2;
  if (attributes == nullptr || address == nullptr) return result(invalid_value);
  const Kind kind = kind_of(address);
  auto* pointer = const_cast<void*>(address);
  *attributes = {kind, kind == unregistered ? no_device : 0, kind == unregistered ? nullptr : pointer,
                 kind == of_device ? nullptr : pointer};
  return success;
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
  if (!rows_fit(to, to_pitch, width, height) || !rows_fit(from, from_pitch, width, height))
    return result(invalid_value);
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
STAND_IN int cudaHostRegister(void* address, size_t bytes, unsigned) {
  if (address == nullptr || bytes == 0) return result(invalid_value);
  const std::lock_guard lock(mutex);
  const bool is_new = registered.emplace(reinterpret_cast<uintptr_t>(address), bytes).second;
  return result(is_new ? success : memory_already_registered);
}
STAND_IN int cudaHostUnregister(void* address) {
  const std::lock_guard lock(mutex);
  return result(registered.erase(reinterpret_cast<uintptr_t>(address)) != 0 ? success : memory_not_registered);
}
STAND_IN int cudaHostGetFlags(unsigned* flags, void* address) {
  if (flags == nullptr || kind_of(address) != of_host) return result(invalid_value);
  *flags = 0;
  return success;
}
STAND_IN int cudaMemPrefetchAsync(const void* address, size_t, int, void*) {
  return result(address != nullptr ? success : invalid_value);
}
STAND_IN int cudaMemAdvise(const void* address, size_t, int, int) {
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
STAND_IN int cudaMemset2D(void* address, size_t pitch, int value, size_t width, size_t height) {
  if (!rows_fit(address, pitch, width, height)) return result(invalid_value);
  for (size_t row = 0; row < height; ++row) {
    const int status = fill(static_cast<char*>(address) + row * pitch, value, width);
    if (status != success) return status;
  }
  return success;
}
STAND_IN int cudaMemset2DAsync(void* address, size_t pitch, int value, size_t width, size_t height, void*) {
  return cudaMemset2D(address, pitch, value, width, height);
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

STAND_IN int cudaStreamGetFlags(void* stream, unsigned* flags) {
  if (flags == nullptr) return result(invalid_value);
  *flags = 0;
  return stream_done(stream);
}
STAND_IN int cudaStreamGetPriority(void* stream, int* priority) {
  const int status = write(priority, 0);
  return status == success ? stream_done(stream) : status;
}
STAND_IN int cudaStreamAttachMemAsync(void* stream, void* address, size_t, unsigned) {
  return address == nullptr ? result(invalid_value) : stream_done(stream);
}
/// What was put into the stream is done: the function is called at once.
STAND_IN int cudaLaunchHostFunc(void* stream, void (*function)(void*), void* user) {
  if (function == nullptr || !is_stream(stream))
    return result(function == nullptr ? invalid_value : invalid_resource_handle);
  function(user);
  return success;
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
STAND_IN int cudaEventRecordWithFlags(void* event, void* stream, unsigned) {
  return cudaEventRecord(event, stream);
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
STAND_IN int cudaSetDeviceFlags(unsigned) {
  return success;
}
STAND_IN int cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) return result(invalid_value);
  *flags = 0;
  return success;
}
STAND_IN int cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return device != 0 || peer != 0 ? result(invalid_device) : write(can, 0);
}
STAND_IN int cudaDeviceEnablePeerAccess(int, unsigned) {
  return result(invalid_device);
}
STAND_IN int cudaDeviceDisablePeerAccess(int) {
  return result(invalid_device);
}
STAND_IN int cudaDeviceGetLimit(size_t* value, int) {
  if (value == nullptr) return result(invalid_value);
  *value = 0;
  return success;
}
STAND_IN int cudaDeviceSetLimit(int, size_t) {
  return success;
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
    case memory_already_registered:
      return "cudaErrorHostMemoryAlreadyRegistered";
    case memory_not_registered:
      return "cudaErrorHostMemoryNotRegistered";
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
    case memory_already_registered:
      return "this memory is registered already";
    case memory_not_registered:
      return "this memory is not registered";
    default:
      return "unknown error";
  }
}
