// libcuda.so.1 of a GPU that is not there.
//
// Adding a function: its name and parameters come from src/backends/cuda/driver/c_api.h, which is checked against what
// is here.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <type_traits>

#include "backends/cuda/driver/c_api.h"
#include "backends/cuda/driver/device_features.h"
#include "facts.h"
#include "faults.h"
#include "grid.h"
#include "library.h"
#include "mapped_memory.h"
#include "memory.h"
#include "module.h"
#include "stream.h"

#define EMULATOR_API extern "C" __attribute__((visibility("default")))

using namespace emulator;
using namespace camshaft::cuda::api;

namespace {

enum : Result {
  invalid_value = 1,
  not_initialized = 3,
  invalid_image = 200,
  invalid_context = 201,
  no_binary = 209,
  invalid_handle = 400,
  not_found = 500,
  too_many_resources = 701,
  launch_failed = 719,
  invalid_cluster_size = 912,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_unmatched = 903,
  capture_unjoined = 904,
  capture_isolation = 905,
};

struct Function {
  std::shared_ptr<Module> module;
  int device = 0;
  std::string name;
  const Kernel* kernel = nullptr;
  unsigned most_dynamic_shared_bytes = facts::shared_bytes_without_asking;
  unsigned most_cluster_blocks = Cluster::most_portable_blocks;
};

struct Loaded {
  std::shared_ptr<Module> module;
  int device = 0;
  std::map<std::string, Function> functions;
};

using Clock = std::chrono::steady_clock;
struct Event {
  int device = 0;
  Clock::time_point time{};
  Stream* stream = nullptr;         // null: not recorded
  std::shared_ptr<Nodes> captured;  // in this capture, as a place in it and no moment …
  std::vector<void*> latest;        // … behind these nodes
};

struct Graph {
  std::shared_ptr<Nodes> owned;  // null while a stream is captured into it
  Nodes* nodes = nullptr;
};

struct Executable {
  std::vector<const Node*> nodes;  // of the graph that it was made of
  std::vector<Work> work;
  unsigned launches = 0;
};

bool initialized = false;
constexpr int most_devices = 16;
int contexts[most_devices];            // whose addresses are the devices' primary contexts
thread_local std::vector<int> pushed;  // devices whose contexts were made current, the current one last
unsigned updates = 0;                  // of kernels in graphs
thread_local Graph being_made;         // the graph that a capture of this thread makes
thread_local int captures = 0;  // streams that this thread records, during which it can neither take memory nor wait

// Memory of the host that kernels may use too, with its size.
std::map<uintptr_t, size_t>& pinned() {
  static auto* pinned = new std::map<uintptr_t, size_t>;
  return *pinned;
}

bool is_pinned(uintptr_t address) {
  const auto next = pinned().upper_bound(address);
  return next != pinned().begin() && address <= std::prev(next)->first + std::prev(next)->second;
}

std::set<Loaded*>& modules() {
  static auto* modules = new std::set<Loaded*>;
  return *modules;
}

// Of the thread that calls; -1 where it has no context.
int current_device() {
  return pushed.empty() ? -1 : pushed.back();
}

// -1 for what is no context.
int device_of_context(Handle context) {
  const auto* found = std::find_if(std::begin(contexts), std::end(contexts), [&](int& c) { return &c == context; });
  return found == std::end(contexts) ? -1 : static_cast<int>(found - std::begin(contexts));
}

bool is_memory_of(int device, uintptr_t address, size_t bytes) {
  return is_device_memory(address, bytes) && device_of(address) == device;
}

Result problem_of(const Stream& stream) {
  return stream.problem.empty() ? Result{success} : Result{launch_failed};
}

// With the stream that work goes to, which is one of the current device.
template <class Add>
Result on(Handle handle, const Add& add) {
  const std::lock_guard lock(device_mutex());
  if (pushed.empty()) return invalid_context;
  Stream* stream = find_stream(handle, current_device());
  if (stream == nullptr || stream->device != current_device()) return invalid_handle;
  if (!stream->problem.empty()) return launch_failed;
  return add(*stream);
}

// What may not be called while a stream is being captured.
Result forbidden_in_capture(Stream* stream) {
  if (stream != nullptr && stream->captured != nullptr) stream->is_invalid = true;
  return capture_unsupported;
}

}  // namespace

long facts::from_environment(const char* variable, long otherwise) {
  const char* wanted = std::getenv(variable);
  return wanted && *wanted ? std::atol(wanted) : otherwise;
}

int facts::capability() {
  return static_cast<int>(from_environment("CAMSHAFT_EMULATED_CAPABILITY", 90));
}

size_t facts::memory_bytes() {
  return static_cast<size_t>(from_environment("CAMSHAFT_EMULATED_MEMORY", 8L << 30));
}

size_t facts::granularity() {
  return static_cast<size_t>(from_environment("CAMSHAFT_EMULATED_GRANULARITY", 64 << 10));
}

size_t facts::shared_bytes_per_block() {
  return static_cast<size_t>(camshaft::cuda::features_of(capability()).shared_bytes_per_block);
}

int facts::devices() {
  return static_cast<int>(std::min<long>(from_environment("CAMSHAFT_EMULATED_DEVICES", 1), most_devices));
}

// ---- the library and the device

EMULATOR_API Result cuInit(unsigned) {
  const std::lock_guard lock(device_mutex());
  if (facts::devices() == 0) return error_no_device;
  if (!initialized) catch_faults();
  initialized = true;
  return success;
}

EMULATOR_API Result cuDriverGetVersion(int* version) {
  *version = static_cast<int>(facts::from_environment("CAMSHAFT_EMULATED_DRIVER", 13000));
  return success;
}

EMULATOR_API Result cuGetErrorName(Result error, const char** name) {
  static const std::map<Result, const char*> names = {{success, "CUDA_SUCCESS"},
                                                      {invalid_value, "CUDA_ERROR_INVALID_VALUE"},
                                                      {error_out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                      {not_initialized, "CUDA_ERROR_NOT_INITIALIZED"},
                                                      {error_no_device, "CUDA_ERROR_NO_DEVICE"},
                                                      {invalid_image, "CUDA_ERROR_INVALID_IMAGE"},
                                                      {invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
                                                      {no_binary, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                      {invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
                                                      {not_found, "CUDA_ERROR_NOT_FOUND"},
                                                      {too_many_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                                      {launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
                                                      {capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                                      {capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                                                      {capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
                                                      {capture_unjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
                                                      {capture_isolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"}};
  const auto found = names.find(error);
  if (found == names.end()) return invalid_value;
  *name = found->second;
  return success;
}

EMULATOR_API Result cuGetErrorString(Result error, const char** text) {
  const std::lock_guard lock(device_mutex());
  static auto* kept = new std::string;
  *kept = error == launch_failed ? last_problem() : "of the emulated GPU";
  *text = kept->c_str();
  return success;
}

EMULATOR_API Result cuDeviceGetCount(int* count) {
  *count = facts::devices();
  return initialized ? Result{success} : Result{not_initialized};
}

EMULATOR_API Result cuDeviceGet(Device* device, int ordinal) {
  *device = ordinal;
  if (!initialized) return not_initialized;
  return ordinal >= 0 && ordinal < facts::devices() ? Result{success} : Result{invalid_value};
}

EMULATOR_API Result cuDeviceGetName(char* name, int length, Device) {
  std::snprintf(name, static_cast<size_t>(length), "%s", facts::name);
  return success;
}

EMULATOR_API Result cuDeviceGetPCIBusId(char* id, int length, Device device) {
  std::snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0", device + 1);
  return success;
}

EMULATOR_API Result cuDeviceTotalMem_v2(size_t* bytes, Device) {
  *bytes = facts::memory_bytes();
  return success;
}

// NVIDIA's compiler asks for tables of functions that are nobody else's, and takes it that there are none.
EMULATOR_API Result cuGetExportTable(const void** table, const void*) {
  *table = nullptr;
  return not_found;
}

EMULATOR_API Result cuDeviceGetAttribute(int* value, int attribute, Device) {
  static const std::map<int, int> values = {
      {1, facts::threads_per_block},              // of a block, at most
      {8, facts::shared_bytes_without_asking},    // of a block
      {10, 32},                                   // threads of a warp
      {multiprocessors, facts::multiprocessors},  //
      {l2_bytes, facts::l2_bytes},
      {kilohertz, facts::kilohertz},
      {memory_kilohertz, facts::memory_kilohertz},
      {memory_bus_bits, facts::memory_bus_bits},
      {39, 2048},  // threads of a multiprocessor
      {capability_major, facts::capability() / 10},
      {capability_minor, facts::capability() % 10},
      {81, static_cast<int>(facts::shared_bytes_per_block()) + 1024},  // of a multiprocessor
      {95, 1},                                                         // cooperative launches
      {shared_bytes_per_block, static_cast<int>(facts::shared_bytes_per_block())}};
  const auto found = values.find(attribute);
  if (found == values.end()) return invalid_value;
  *value = found->second;
  return success;
}

EMULATOR_API Result cuDevicePrimaryCtxRetain(Handle* context, Device device) {
  if (device < 0 || device >= facts::devices()) return invalid_value;
  *context = &contexts[device];
  return initialized ? Result{success} : Result{not_initialized};
}

EMULATOR_API Result cuDevicePrimaryCtxRelease_v2(Device) {
  return success;
}

EMULATOR_API Result cuCtxPushCurrent_v2(Handle context) {
  if (device_of_context(context) < 0) return invalid_context;
  pushed.push_back(device_of_context(context));
  return success;
}

EMULATOR_API Result cuCtxPopCurrent_v2(Handle* context) {
  if (pushed.empty()) return invalid_context;
  *context = &contexts[pushed.back()];
  pushed.pop_back();
  return success;
}

EMULATOR_API Result cuCtxGetDevice(Device* device) {
  if (pushed.empty()) return invalid_context;
  *device = current_device();
  return success;
}

// ---- streams and events

EMULATOR_API Result cuStreamCreate(Handle* stream, unsigned) {
  if (pushed.empty()) return invalid_context;
  *stream = make_stream(current_device());
  return success;
}

EMULATOR_API Result cuStreamDestroy_v2(Handle handle) {
  const std::lock_guard lock(device_mutex());
  Stream* stream = find_stream(handle, current_device());
  if (stream == nullptr || handle == nullptr) return invalid_handle;
  destroy_stream(stream);
  return success;
}

EMULATOR_API Result cuStreamQuery(Handle handle) {
  const std::lock_guard lock(device_mutex());
  if (pushed.empty()) return invalid_context;
  Stream* stream = find_stream(handle, current_device());
  if (stream == nullptr || stream->device != current_device()) return invalid_handle;
  if (stream->captured) return forbidden_in_capture(stream);
  finish(*stream);
  return stream->problem.empty() && !stream->waiting.empty() ? Result{error_not_ready} : problem_of(*stream);
}

EMULATOR_API Result cuStreamSynchronize(Handle handle) {
  for (;;) {
    if (const Result result = cuStreamQuery(handle); result != error_not_ready) return result;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

EMULATOR_API Result cuCtxSynchronize() {
  if (captures > 0) return capture_unsupported;
  finish_all();
  return success;
}

EMULATOR_API Result cuEventCreate(Handle* event, unsigned) {
  if (pushed.empty()) return invalid_context;
  auto* made = new Event;
  made->device = current_device();
  *event = made;
  return success;
}

EMULATOR_API Result cuEventDestroy_v2(Handle event) {
  finish_all();
  delete static_cast<Event*>(event);
  return success;
}

EMULATOR_API Result cuEventRecord(Handle event, Handle handle) {
  return on(handle, [&](Stream& stream) {
    auto* recorded = static_cast<Event*>(event);
    if (recorded->device != stream.device) return Result{invalid_handle};
    recorded->captured = stream.captured;
    recorded->latest = stream.latest;
    if (stream.captured) return Result{success};
    recorded->stream = &stream;
    stream.add([recorded] {
      recorded->time = Clock::now();
      return std::string();
    });
    return Result{success};
  });
}

EMULATOR_API Result cuEventRecordWithFlags(Handle event, Handle handle, unsigned flags) {
  if (flags == 0) return cuEventRecord(event, handle);
  return on(handle, [&](Stream& stream) {
    if (flags != event_of_recording || !stream.captured) return Result{invalid_value};
    stream.add([recorded = static_cast<Event*>(event)] {
      recorded->time = Clock::now();
      return std::string();
    });
    return Result{success};
  });
}

// A stream that is no longer there has done its work.
EMULATOR_API Result cuEventQuery(Handle event) {
  Stream* stream = static_cast<Event*>(event)->stream;
  return stream == nullptr || find_stream(stream, current_device()) == nullptr ? Result{success}
                                                                               : cuStreamQuery(stream);
}

EMULATOR_API Result cuEventSynchronize(Handle event) {
  Stream* stream = static_cast<Event*>(event)->stream;
  return stream == nullptr || find_stream(stream, current_device()) == nullptr ? Result{success}
                                                                               : cuStreamSynchronize(stream);
}

EMULATOR_API Result cuEventElapsedTime(float* milliseconds, Handle from, Handle to) {
  for (const Handle event : {from, to})  // that never happened
    if (static_cast<Event*>(event)->time == Clock::time_point()) return invalid_handle;
  *milliseconds =
      std::chrono::duration<float, std::milli>(static_cast<Event*>(to)->time - static_cast<Event*>(from)->time).count();
  return success;
}

// What the event stands for, on whichever device, is done at once: later than the stream may, and earlier than it must.
// In a capture the stream's work comes behind it; a stream that was not captured joins.
EMULATOR_API Result cuStreamWaitEvent(Handle stream, Handle event, unsigned) {
  const std::lock_guard lock(device_mutex());
  if (pushed.empty()) return invalid_context;
  const auto& [captured, latest] = std::tie(static_cast<Event*>(event)->captured, static_cast<Event*>(event)->latest);
  Stream* waits = find_stream(stream, current_device());
  if (waits == nullptr || waits->device != current_device()) return invalid_handle;
  if (captured && !waits->captured && stream != nullptr) {
    waits->captured = captured;
    waits->latest.clear();
    waits->has_joined = true;
  }
  if (waits->captured != captured) {
    waits->is_invalid = true;
    return capture_isolation;
  }
  if (captured) {
    for (void* node : latest)
      if (std::find(waits->latest.begin(), waits->latest.end(), node) == waits->latest.end())
        waits->latest.push_back(node);
    return success;
  }
  Stream* other = static_cast<Event*>(event)->stream;
  if (other == nullptr || other == waits || find_stream(other, current_device()) == nullptr) return success;
  finish(*other);
  return problem_of(*other);
}

// ---- memory

EMULATOR_API Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (pushed.empty()) return invalid_context;
  *free = free_bytes(current_device());
  *total = facts::memory_bytes();
  return success;
}

EMULATOR_API Result cuMemAlloc_v2(Pointer* memory, size_t bytes) {
  if (pushed.empty()) return invalid_context;
  if (bytes == 0) return invalid_value;
  if (captures > 0) return capture_unsupported;
  *memory = allocate(bytes, current_device());
  return *memory != 0 ? Result{success} : Result{error_out_of_memory};
}

EMULATOR_API Result cuMemFree_v2(Pointer memory) {
  if (captures > 0) return capture_unsupported;
  finish_all();
  return memory == 0 || release(memory) ? Result{success} : Result{invalid_value};
}

EMULATOR_API Result cuMemGetAddressRange_v2(Pointer* begin, size_t* bytes, Pointer memory) {
  if (pushed.empty()) return invalid_context;
  const auto [first, size] = allocation_of(memory);
  *begin = first;
  *bytes = size;
  return first != 0 ? Result{success} : Result{not_found};
}

// ---- memory that several processes have

namespace {

struct IpcHandle {
  char bytes[64];
};

// What begins the handles of this driver.
constexpr char ipc_magic[] = "emulated GPU memory";
static_assert(sizeof(ipc_magic) + sizeof(SharedPages) <= sizeof(IpcHandle));

}  // namespace

EMULATOR_API Result cuIpcGetMemHandle(IpcHandle* handle, Pointer memory) {
  const std::lock_guard lock(device_mutex());
  if (pushed.empty()) return invalid_context;
  finish_all();
  SharedPages shared;
  if (!export_allocation(memory, shared)) return invalid_value;
  *handle = {};
  std::memcpy(handle->bytes, ipc_magic, sizeof(ipc_magic));
  std::memcpy(handle->bytes + sizeof(ipc_magic), &shared, sizeof(shared));
  return success;
}

EMULATOR_API Result cuIpcOpenMemHandle_v2(Pointer* memory, IpcHandle handle, unsigned flags) {
  const std::lock_guard lock(device_mutex());
  SharedPages shared;
  if (pushed.empty()) return invalid_context;
  if (flags != 1 || std::memcmp(handle.bytes, ipc_magic, sizeof(ipc_magic)) != 0) return invalid_value;
  std::memcpy(&shared, handle.bytes + sizeof(ipc_magic), sizeof(shared));
  if (shared.owner == getpid()) return invalid_context;
  *memory = import_allocation(shared, current_device());
  return *memory != 0 ? Result{success} : Result{invalid_value};
}

EMULATOR_API Result cuIpcCloseMemHandle(Pointer memory) {
  const std::lock_guard lock(device_mutex());
  finish_all();
  return release_import(memory) ? Result{success} : Result{invalid_value};
}

EMULATOR_API Result cuMemGetAllocationGranularity(size_t* bytes, const MemoryProperties*, int) {
  if (pushed.empty()) return invalid_context;
  *bytes = facts::granularity();
  return success;
}

EMULATOR_API Result cuMemCreate(uint64_t* memory, size_t bytes, const MemoryProperties* properties, uint64_t flags) {
  const MemoryProperties of_device;
  if (pushed.empty()) return invalid_context;
  if (captures > 0) return capture_unsupported;
  if (flags != 0 || bytes == 0 || bytes % facts::granularity() != 0 || properties->type != of_device.type ||
      properties->location_type != of_device.location_type || properties->device != current_device())
    return invalid_value;
  *memory = create_memory(bytes, current_device());
  return *memory != 0 ? Result{success} : Result{error_out_of_memory};
}

EMULATOR_API Result cuMemRelease(uint64_t memory) {
  return release_memory(memory) ? Result{success} : Result{invalid_value};
}

EMULATOR_API Result cuMemAddressReserve(Pointer* address, size_t bytes, size_t, Pointer, uint64_t) {
  if (pushed.empty()) return invalid_context;
  if (bytes == 0 || bytes % facts::granularity() != 0) return invalid_value;
  *address = reserve_addresses(bytes);
  return *address != 0 ? Result{success} : Result{error_out_of_memory};
}

EMULATOR_API Result cuMemAddressFree(Pointer address, size_t bytes) {
  return free_addresses(address, bytes) ? Result{success} : Result{invalid_value};
}

EMULATOR_API Result cuMemMap(Pointer address, size_t bytes, size_t offset, uint64_t memory, uint64_t) {
  return offset == 0 && map_memory(address, bytes, memory) ? Result{success} : Result{invalid_value};
}

// A device does not wait for its work here: who frees what is in use has made a mistake.
EMULATOR_API Result cuMemUnmap(Pointer address, size_t bytes) {
  return unmap_memory(address, bytes) ? Result{success} : Result{invalid_value};
}

EMULATOR_API Result cuMemSetAccess(Pointer address, size_t bytes, const MemoryAccess* access, size_t count) {
  const MemoryAccess wanted;
  if (count != 1 || access->location_type != wanted.location_type || access->flags != wanted.flags)
    return invalid_value;
  return open_memory(address, bytes, access->device) ? Result{success} : Result{invalid_value};
}

EMULATOR_API Result cuMemAllocAsync(Pointer* memory, size_t bytes, Handle) {
  return cuMemAlloc_v2(memory, bytes);
}

EMULATOR_API Result cuMemFreeAsync(Pointer memory, Handle) {
  return cuMemFree_v2(memory);
}

EMULATOR_API Result cuPointerGetAttributes(unsigned count, int* attributes, void** values, Pointer memory) {
  const std::lock_guard lock(device_mutex());
  if (pushed.empty()) return invalid_context;
  const bool on_device = is_device_memory(memory, 1);
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == memory_type) {
      *static_cast<unsigned*>(values[i]) = on_device ? unsigned{of_device} : is_pinned(memory) ? unsigned{of_host} : 0;
    } else if (attributes[i] == is_managed) {
      *static_cast<bool*>(values[i]) = false;
    } else if (attributes[i] == device_ordinal) {
      *static_cast<int*>(values[i]) = on_device ? device_of(memory) : is_pinned(memory) ? 0 : -2;
    } else {
      return invalid_value;
    }
  }
  return success;
}

EMULATOR_API Result cuMemAllocHost_v2(void** memory, size_t bytes) {
  const std::lock_guard lock(device_mutex());
  if (pushed.empty()) return invalid_context;
  *memory = std::malloc(bytes);
  if (*memory == nullptr) return error_out_of_memory;
  pinned()[reinterpret_cast<uintptr_t>(*memory)] = bytes;
  return success;
}

EMULATOR_API Result cuMemFreeHost(void* memory) {
  const std::lock_guard lock(device_mutex());
  finish_all();
  if (pinned().erase(reinterpret_cast<uintptr_t>(memory)) == 0) return invalid_value;
  std::free(memory);
  return success;
}

EMULATOR_API Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, Handle handle) {
  return on(handle, [&](Stream& stream) {
    if (!is_memory_of(stream.device, to, bytes) || is_device_memory(reinterpret_cast<uintptr_t>(from), 1))
      return Result{invalid_value};
    // A graph reads it whenever it runs, and pinned memory is read when its turn has come.
    if (stream.captured || is_pinned(reinterpret_cast<uintptr_t>(from))) {
      stream.add([=] {
        if (!is_device_memory(to, bytes)) return std::string("a copy to memory that was freed");
        std::memcpy(reinterpret_cast<void*>(to), from, bytes);
        return std::string();
      });
      return Result{success};
    }
    const auto* begin = static_cast<const std::byte*>(from);
    stream.add([to, kept = std::vector<std::byte>(begin, begin + bytes)] {
      if (!is_device_memory(to, kept.size())) return std::string("a copy to memory that was freed");
      std::memcpy(reinterpret_cast<void*>(to), kept.data(), kept.size());
      return std::string();
    });
    return Result{success};
  });
}

EMULATOR_API Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, Handle handle) {
  return on(handle, [&](Stream& stream) {
    if (!is_memory_of(stream.device, from, bytes) || is_device_memory(reinterpret_cast<uintptr_t>(to), 1))
      return Result{invalid_value};
    stream.add([=] {
      if (!is_device_memory(from, bytes)) return std::string("a copy from memory that was freed");
      std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
      return std::string();
    });
    return Result{success};
  });
}

namespace {

Result copy_on_devices(Pointer to, Pointer from, size_t bytes, Handle handle) {
  return on(handle, [&](Stream& stream) {
    stream.add([=] {
      if (!is_device_memory(from, bytes) || !is_device_memory(to, bytes))
        return std::string("a copy of memory that was freed");
      std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
      return std::string();
    });
    return Result{success};
  });
}

}  // namespace

EMULATOR_API Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, Handle handle) {
  if (!is_memory_of(current_device(), from, bytes) || !is_memory_of(current_device(), to, bytes)) return invalid_value;
  return copy_on_devices(to, from, bytes, handle);
}

namespace {

/// CUDA_MEMCPY2D.
struct CopyOfRows {
  struct Side {
    size_t x, y;
    unsigned type;
    void* host;
    Pointer device;
    void* array;
    size_t pitch;
  } from, to;
  size_t width, height;
};

}  // namespace

/// Within a device's memory.
EMULATOR_API Result cuMemcpy2DAsync_v2(const CopyOfRows* rows, Handle handle) {
  constexpr unsigned of_device = 2;
  const CopyOfRows copy = *rows;
  if (copy.height == 0) return success;
  for (const CopyOfRows::Side* side : {&copy.from, &copy.to})
    if (side->type != of_device || side->x != 0 || side->y != 0 || side->pitch < copy.width ||
        !is_memory_of(current_device(), side->device, (copy.height - 1) * side->pitch + copy.width))
      return invalid_value;
  return on(handle, [&](Stream& stream) {
    stream.add([=] {
      for (const CopyOfRows::Side* side : {&copy.from, &copy.to})
        if (!is_device_memory(side->device, (copy.height - 1) * side->pitch + copy.width))
          return std::string("a copy of memory that was freed");
      for (size_t row = 0; row < copy.height; ++row)
        std::memmove(reinterpret_cast<void*>(copy.to.device + row * copy.to.pitch),
                     reinterpret_cast<const void*>(copy.from.device + row * copy.from.pitch), copy.width);
      return std::string();
    });
    return Result{success};
  });
}

EMULATOR_API Result cuMemcpyPeerAsync(Pointer to, Handle to_context, Pointer from, Handle from_context, size_t bytes,
                                      Handle handle) {
  if (!is_memory_of(device_of_context(to_context), to, bytes) ||
      !is_memory_of(device_of_context(from_context), from, bytes))
    return invalid_value;
  const Result begun =
      on(handle, [](Stream& stream) { return stream.captured ? forbidden_in_capture(&stream) : Result{success}; });
  return begun == success ? copy_on_devices(to, from, bytes, handle) : begun;
}

EMULATOR_API Result cuMemsetD8Async(Pointer to, unsigned char value, size_t count, Handle handle) {
  return on(handle, [&](Stream& stream) {
    if (!is_memory_of(stream.device, to, count)) return Result{invalid_value};
    stream.add([=] {
      if (!is_device_memory(to, count)) return std::string("filling memory that was freed");
      std::memset(reinterpret_cast<void*>(to), value, count);
      return std::string();
    });
    return Result{success};
  });
}

EMULATOR_API Result cuMemsetD32Async(Pointer to, unsigned value, size_t count, Handle handle) {
  return on(handle, [&](Stream& stream) {
    if (!is_memory_of(stream.device, to, 4 * count) || to % 4 != 0) return Result{invalid_value};
    stream.add([=] {
      if (!is_device_memory(to, 4 * count)) return std::string("filling memory that was freed");
      std::fill_n(reinterpret_cast<unsigned*>(to), count, value);
      return std::string();
    });
    return Result{success};
  });
}

// ---- kernels

EMULATOR_API Result cuModuleLoadData(Handle* handle, const void* image) {
  const std::lock_guard lock(device_mutex());
  if (pushed.empty()) return invalid_context;
  const auto module = Module::load(image);
  if (module == nullptr) return invalid_image;
  if (module->capability() >= 0 && module->capability() != facts::capability()) return no_binary;
  *handle = *modules().insert(new Loaded{module, current_device(), {}}).first;
  return success;
}

EMULATOR_API Result cuModuleUnload(Handle handle) {
  const std::lock_guard lock(device_mutex());
  auto* loaded = static_cast<Loaded*>(handle);
  if (modules().erase(loaded) == 0) return invalid_handle;
  finish_all();
  delete loaded;
  return success;
}

EMULATOR_API Result cuModuleGetFunction(Handle* handle, Handle module, const char* name) {
  const std::lock_guard lock(device_mutex());
  auto* loaded = static_cast<Loaded*>(module);
  if (!modules().contains(loaded)) return invalid_handle;
  const Kernel* kernel = loaded->module->kernel(name);
  if (kernel == nullptr) return not_found;
  Function& function = loaded->functions[name];
  function.module = loaded->module;
  function.device = loaded->device;
  function.name = name;
  function.kernel = kernel;
  *handle = &function;
  return success;
}

EMULATOR_API Result cuFuncSetAttribute(Handle handle, int attribute, int value) {
  if (attribute == large_clusters)
    static_cast<Function*>(handle)->most_cluster_blocks =
        value == 0 ? Cluster::most_portable_blocks : Cluster::most_blocks;
  if (attribute != most_dynamic_shared_bytes) return success;
  if (value < 0 || static_cast<size_t>(value) > facts::shared_bytes_per_block()) return invalid_value;
  static_cast<Function*>(handle)->most_dynamic_shared_bytes = static_cast<unsigned>(value);
  return success;
}

EMULATOR_API Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Handle, int, size_t) {
  *blocks = 1;
  return success;
}

EMULATOR_API Result cuOccupancyMaxActiveClusters(int* clusters, Handle, const LaunchConfig* config) {
  unsigned blocks = 1;
  for (unsigned i = 0; i < config->attribute_count; ++i)
    if (config->attributes[i].kind == LaunchAttribute::cluster) blocks = config->attributes[i].cluster_size[1];
  *clusters = std::max(1, facts::multiprocessors / static_cast<int>(blocks));
  return success;
}

namespace {

std::shared_ptr<KernelCall> make_call(const Function& function, Index blocks, Index threads, unsigned shared_bytes,
                                      void** arguments, bool together, unsigned cluster_blocks, bool may_start) {
  const auto call = std::make_shared<KernelCall>();
  for (unsigned p = 0; p < function.kernel->parameter_count; ++p) {
    const size_t bytes = function.kernel->parameters[p].bytes;
    call->values.emplace_back((bytes + sizeof(ParameterBytes) - 1) / sizeof(ParameterBytes));
    std::memcpy(call->values.back().data(), arguments[p], bytes);
    call->pointers.push_back(call->values.back().data());
  }
  call->launch = {const_cast<Function*>(&function),
                  blocks.x,
                  blocks.y,
                  blocks.z,
                  threads.x,
                  threads.y,
                  threads.z,
                  shared_bytes,
                  call->pointers.data()};
  call->with = [=, &function](void** others) {
    return make_call(function, blocks, threads, shared_bytes, others, together, cluster_blocks, may_start);
  };
  // Not the call itself, which has this.
  call->work = [=, values = call->values, module = function.module, name = function.name, kernel = function.kernel,
                device = function.device] {
    std::vector<void*> pointers;
    for (const auto& value : values) pointers.push_back(const_cast<ParameterBytes*>(value.data()));
    for (unsigned p = 0; p < kernel->parameter_count; ++p) {
      if (!kernel->parameters[p].is_pointer) continue;
      uintptr_t address = 0;
      std::memcpy(&address, pointers[p], sizeof address);
      // An operand without elements may lie in the program itself, and where one begins may lie before it.
      Dl_info program;
      if (address != 0 && !may_be_device_memory(address) && !is_pinned(address) &&
          dladdr(reinterpret_cast<const void*>(address), &program) == 0)
        return "parameter " + std::to_string(p) + " of kernel '" + name + "' points to no device memory";
      if (const int other = device_of(address); other >= 0 && other != device)
        return "parameter " + std::to_string(p) + " of kernel '" + name + "' on device " + std::to_string(device) +
               " points to memory of device " + std::to_string(other);
    }
    Launch launch;
    launch.name = name;
    launch.kernel = kernel;
    launch.enter = module->enter();
    launch.blocks = blocks;
    launch.threads = threads;
    launch.shared_bytes = shared_bytes;
    launch.cluster_blocks = cluster_blocks;
    launch.may_start = may_start;
    launch.arguments = pointers.data();
    static bool is_odd = false;
    launch.is_odd = is_odd = !is_odd;
    run_grid(launch, together);
    if (launch.failed()) return launch.problem();
    const std::string damaged = damage();
    return damaged.empty() ? damaged : "kernel '" + name + "' writes to " + damaged;
  };
  return call;
}

Result launch_kernel(const Function& function, Index blocks, Index threads, unsigned shared_bytes, Handle handle,
                     void** arguments, bool together, unsigned cluster_blocks = 1, bool may_start = false) {
  const auto count = [](Index i) { return uint64_t{i.x} * i.y * i.z; };
  if (count(blocks) == 0 || count(threads) == 0 || blocks.x > 0x7fffffff || blocks.y > 65535 || blocks.z > 65535 ||
      threads.z > 64 || count(threads) > facts::threads_per_block || shared_bytes > function.most_dynamic_shared_bytes)
    return invalid_value;
  if (function.kernel->run == nullptr) return no_binary;  // machine code of a real GPU
  if (function.kernel->most_threads != 0 && count(threads) > function.kernel->most_threads) return too_many_resources;
  if (cluster_blocks == 0 || cluster_blocks > function.most_cluster_blocks || blocks.y % cluster_blocks != 0)
    return invalid_cluster_size;
  if (together && count(blocks) > facts::multiprocessors) return too_many_resources;
  return on(handle, [&](Stream& stream) {
    if (function.device != stream.device) return Result{invalid_handle};
    const auto call =
        make_call(function, blocks, threads, shared_bytes, arguments, together, cluster_blocks, may_start);
    stream.add(call->work, call);
    return Result{success};
  });
}

}  // namespace

// Kernels may always start as late as they like; that those that need not have waited is checked.
EMULATOR_API Result cuFuncGetParamInfo(Handle handle, size_t index, size_t* offset, size_t* bytes) {
  const auto* function = static_cast<const Function*>(handle);
  if (function == nullptr) return invalid_handle;
  if (index >= function->kernel->parameter_count) return invalid_value;
  size_t end = 0;
  for (size_t p = 0; p <= index; ++p) {
    const emulator::Parameter& parameter = function->kernel->parameters[p];
    *offset = (end + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
    *bytes = parameter.bytes;
    end = *offset + *bytes;
  }
  return success;
}

EMULATOR_API Result cuLaunchKernelEx(const LaunchConfig* config, Handle function, void** arguments, void** extra) {
  if (extra != nullptr || function == nullptr) return invalid_value;
  unsigned cluster_blocks = 1;
  bool may_start = false;
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    if (attribute.kind == LaunchAttribute::cluster && camshaft::cuda::features_of(facts::capability()).clusters &&
        attribute.cluster_size[0] == 1 && attribute.cluster_size[2] == 1) {
      cluster_blocks = attribute.cluster_size[1];
    } else if (attribute.kind == LaunchAttribute::programmatic_serialization) {
      may_start = attribute.is_allowed != 0;
    } else {
      return invalid_value;
    }
  }
  return launch_kernel(*static_cast<Function*>(function), {config->grid_x, config->grid_y, config->grid_z},
                       {config->block_x, config->block_y, config->block_z}, config->shared_bytes, config->stream,
                       arguments, false, cluster_blocks, may_start);
}

EMULATOR_API Result cuLaunchCooperativeKernel(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                              unsigned block_x, unsigned block_y, unsigned block_z,
                                              unsigned shared_bytes, Handle stream, void** arguments) {
  return launch_kernel(*static_cast<Function*>(function), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                       shared_bytes, stream, arguments, true);
}

// ---- graphs

EMULATOR_API Result cuStreamBeginCapture_v2(Handle handle, int) {
  return on(handle, [&](Stream& stream) {
    if (handle == nullptr || stream.captured) return Result{capture_unsupported};
    stream.captured = std::make_shared<Nodes>();
    stream.latest.clear();
    stream.is_invalid = stream.has_joined = false;
    ++captures;
    return Result{success};
  });
}

namespace {

// Ends the capture of the streams that joined it. Whether all that they recorded comes before these nodes or is them.
bool end_joined(const std::shared_ptr<Nodes>& captured, const std::vector<void*>& last) {
  std::set<const void*> before(last.begin(), last.end());
  for (auto node = captured->rbegin(); node != captured->rend(); ++node)
    if (before.contains(node->get())) before.insert((*node)->after.begin(), (*node)->after.end());
  bool are_behind = true;
  for_each_stream([&](Stream& stream) {
    if (stream.captured != captured) return;
    are_behind = are_behind && !stream.is_invalid &&
                 std::all_of(stream.latest.begin(), stream.latest.end(), [&](void* n) { return before.contains(n); });
    stream.captured = nullptr;
    stream.latest.clear();
    stream.has_joined = false;
  });
  return are_behind;
}

}  // namespace

EMULATOR_API Result cuStreamEndCapture(Handle handle, Handle* graph) {
  return on(handle, [&](Stream& stream) {
    *graph = nullptr;
    if (!stream.captured) return Result{capture_unsupported};
    if (stream.has_joined) return Result{capture_unmatched};
    const auto captured = std::move(stream.captured);
    stream.captured = nullptr;
    --captures;
    const bool are_behind = end_joined(captured, stream.latest);
    if (stream.is_invalid) return Result{capture_invalidated};
    if (!are_behind) return Result{capture_unjoined};
    *graph = new Graph{captured, captured.get()};
    return Result{success};
  });
}

EMULATOR_API Result cuStreamGetCtx(Handle handle, Handle* context) {
  const std::lock_guard lock(device_mutex());
  if (pushed.empty()) return invalid_context;
  Stream* stream = find_stream(handle, current_device());
  if (stream == nullptr) return invalid_handle;
  *context = &contexts[stream->device];
  return success;
}

EMULATOR_API Result cuStreamIsCapturing(Handle handle, int* status) {
  return on(handle, [&](Stream& stream) {
    *status = stream.captured ? 1 : 0;
    return Result{success};
  });
}

EMULATOR_API Result cuThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int now = 0;
  std::swap(now, *mode);
  return success;
}

// Of what kernels use: whole rows of 128 bytes, swizzled by 16, zeros outside. As the kernels' intrinsics.h reads it.
EMULATOR_API Result cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* data, const uint64_t* sizes,
                                           const uint64_t* byte_strides, const uint32_t* box,
                                           const uint32_t* element_strides, int interleave, int swizzle, int,
                                           int outside) {
  struct TensorMap {
    const void* data;
    uint32_t rank, element_bytes;
    uint32_t sizes[5], box[5];
    uint64_t strides[5];
  } made{data, rank, type == tensor_of_u16 ? 2u : 1u, {}, {}, {}};
  if (pushed.empty()) return invalid_context;
  if ((type != tensor_of_u8 && type != tensor_of_u16) || rank < 2 || rank > 5 || interleave != not_interleaved ||
      swizzle != swizzle_of_128_bytes || outside != zeros_outside || reinterpret_cast<uintptr_t>(map) % 64 != 0 ||
      reinterpret_cast<uintptr_t>(data) % 16 != 0 || box[0] * made.element_bytes > 128)
    return invalid_value;
  for (uint32_t d = 0; d < rank; ++d) {
    const uint64_t stride = d == 0 ? made.element_bytes : byte_strides[d - 1];
    if (sizes[d] == 0 || sizes[d] > (uint64_t{1} << 32) || box[d] == 0 || box[d] > 256 || element_strides[d] != 1 ||
        (d > 0 && (stride % 16 != 0 || stride >= (uint64_t{1} << 40))))
      return invalid_value;
    made.sizes[d] = static_cast<uint32_t>(sizes[d]);
    made.box[d] = box[d];
    made.strides[d] = stride;
  }
  std::memcpy(map, &made, sizeof made);
  return success;
}

// The graph is the one that is being made; it can be asked for its nodes until the next call.
EMULATOR_API Result cuStreamGetCaptureInfo_v3(Handle handle, int* status, uint64_t* id, Handle* graph,
                                              const Handle** dependencies, const void** edges, size_t* count) {
  return on(handle, [&](Stream& stream) {
    *status = stream.captured ? 1 : 0;
    if (!stream.captured) return Result{success};
    being_made.nodes = stream.captured.get();
    if (id) *id = reinterpret_cast<uintptr_t>(stream.captured.get());
    if (graph) *graph = &being_made;
    if (dependencies) *dependencies = stream.latest.data();
    if (edges) *edges = stream.latest.data();  // data of an edge, as long as a pointer
    if (count) *count = stream.latest.size();
    return Result{success};
  });
}

EMULATOR_API Result cuGraphGetNodes(Handle graph, Handle* nodes, size_t* count) {
  const Nodes& all = *static_cast<Graph*>(graph)->nodes;
  if (nodes)
    for (size_t i = 0; i < std::min(*count, all.size()); ++i) nodes[i] = all[i].get();
  *count = all.size();
  return success;
}

EMULATOR_API Result cuGraphNodeGetType(Handle node, int* type) {
  constexpr int event_record = 7;
  *type = static_cast<Node*>(node)->kernel ? node_of_kernel : event_record;
  return success;
}

EMULATOR_API Result cuGraphKernelNodeGetParams_v2(Handle node, KernelNode* parameters) {
  if (!static_cast<Node*>(node)->kernel) return invalid_value;
  *parameters = static_cast<Node*>(node)->kernel->launch;
  return success;
}

EMULATOR_API Result cuGraphExecKernelNodeSetParams_v2(Handle executable, Handle node, const KernelNode* parameters) {
  auto& [nodes, work, launches] = *static_cast<Executable*>(executable);
  const auto found = std::find(nodes.begin(), nodes.end(), node);
  if (found == nodes.end() || !(*found)->kernel || (*found)->kernel->launch.function != parameters->function)
    return invalid_value;
  ++updates;
  work[static_cast<size_t>(found - nodes.begin())] = (*found)->kernel->with(parameters->arguments)->work;
  return success;
}

// How often kernels of graphs were given other arguments: for tests.
EMULATOR_API unsigned emulatedUpdates() {
  return updates;
}

EMULATOR_API Result cuGraphInstantiateWithFlags(Handle* executable, Handle graph, unsigned long long) {
  if (graph == nullptr) return invalid_value;
  auto* made = new Executable;
  for (const auto& node : *static_cast<Graph*>(graph)->nodes) {
    made->nodes.push_back(node.get());
    made->work.push_back(node->work);
  }
  *executable = made;
  return success;
}

namespace {

// An order that the edges allow: what is no kernel comes as early as it may, or as late, in every other launch.
std::vector<size_t> order_of(const std::vector<const Node*>& nodes, bool kernels_first) {
  std::map<const void*, size_t> place;
  for (size_t n = 0; n < nodes.size(); ++n) place[nodes[n]] = n;
  std::vector<size_t> order;
  bool is_chain = true;
  for (size_t n = 0; n < nodes.size(); ++n) {
    is_chain = is_chain && (n == 0 || (nodes[n]->after.size() == 1 && nodes[n]->after[0] == nodes[n - 1]));
    order.push_back(n);
  }
  if (is_chain) return order;
  order.clear();
  std::vector<bool> is_done(nodes.size(), false);
  while (order.size() < nodes.size()) {
    size_t next = nodes.size();
    for (size_t n = 0; n < nodes.size(); ++n) {
      const auto is_before = [&](void* node) { return is_done[place.at(node)]; };
      if (is_done[n] || !std::all_of(nodes[n]->after.begin(), nodes[n]->after.end(), is_before)) continue;
      if (next == nodes.size()) next = n;
      if ((nodes[n]->kernel != nullptr) != kernels_first) continue;
      next = n;
      break;
    }
    is_done[next] = true;
    order.push_back(next);
  }
  return order;
}

}  // namespace

EMULATOR_API Result cuGraphLaunch(Handle executable, Handle handle) {
  return on(handle, [&](Stream& stream) {
    auto& [nodes, work, launches] = *static_cast<Executable*>(executable);
    for (const size_t n : order_of(nodes, launches++ % 2 == 0)) stream.add(work[n]);
    return Result{success};
  });
}

EMULATOR_API Result cuGraphExecDestroy(Handle executable) {
  delete static_cast<Executable*>(executable);
  return success;
}

EMULATOR_API Result cuGraphDestroy(Handle graph) {
  delete static_cast<Graph*>(graph);
  return success;
}

// What the product looks up and this file lacks, or has with other parameters, is an error here.
#define EMULATOR_CHECK(name, parameters) static_assert(std::is_same_v<decltype(&name), Result(*) parameters>);
CAMSHAFT_CUDA_DRIVER(EMULATOR_CHECK)
CAMSHAFT_CUDA_NEWER_DRIVER(EMULATOR_CHECK)

namespace emulator {

bool enqueue(void* stream, std::function<std::string()> work) {
  return on(stream, [&](Stream& found) {
           found.add(std::move(work));
           return Result{success};
         }) == success;
}

bool is_on_device(const void* address, size_t bytes) {
  const std::lock_guard lock(device_mutex());
  return is_device_memory(reinterpret_cast<uintptr_t>(address), bytes);
}

}  // namespace emulator
