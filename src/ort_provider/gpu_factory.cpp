#include "ort_provider/gpu_factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "backends/cuda/libraries/libraries.h"
#include "ort_provider/copy_kernels.h"
#include "ort_provider/gpu_memory.h"
#include "ort_provider/options.h"
#include "ort_provider/sync_stream.h"
#include "ort_provider/values.h"

namespace camshaft::ort_provider {

namespace {

using ort::slot;

constexpr uint32_t nvidia = 0x10de;
constexpr size_t any_alignment = 0;  // as the devices have that programs name when they bind memory

struct GpuAllocator : ort::Allocator {
  GpuAllocator(const Host& of, GpuMemory& on, const OrtMemoryInfo* with)
      : ort::Allocator{}, host(of), memory(on), blocks(on), about(with) {
    version = interface_version;
    alloc = [](ort::Allocator* self, size_t bytes) { return allocated(self, bytes, nullptr); };
    alloc_on_stream = allocated;
    free = [](ort::Allocator* self, void* memory_of) { static_cast<GpuAllocator*>(self)->blocks.free(memory_of); };
    info = [](const ort::Allocator* self) {
      return reinterpret_cast<const ort::MemoryInfo*>(static_cast<const GpuAllocator*>(self)->about);
    };
    reserve = alloc;
  }
  static void* allocated(ort::Allocator* self, size_t bytes, void* stream) {
    auto* own = static_cast<GpuAllocator*>(self);
    try {
      if (!stream) return own->blocks.allocate(bytes, nullptr);
      void* const handle = handle_of(own->host, static_cast<OrtSyncStream*>(stream));
      return own->blocks.allocate(bytes, WorkStream::of(own->memory.device(), handle));
    } catch (const std::exception&) {
      return nullptr;  // which ONNX Runtime has a message for
    }
  }
  const Host& host;
  GpuMemory& memory;
  GpuBlocks blocks;
  const OrtMemoryInfo* about;
};

/// How many GPUs CUDA will number. Where the system lists them CUDA is not asked: a process that has started it cannot
/// fork children that use it, and this is called when the provider is registered, whether it will be used or not. A
/// number that is not there is an error when a session is made.
size_t count_gpus() {
  std::error_code failed;
  const std::filesystem::directory_iterator listed("/proc/driver/nvidia/gpus", failed);
  if (failed) {
    const cuda::Library<cuda::api::Driver>& driver = cuda::driver_library();
    return driver.problem.empty() ? cuda::list_devices(driver.functions).size() : 0;
  }
  const auto all = static_cast<size_t>(std::distance(begin(listed), end(listed)));
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) return all;
  // Numbers or names, separated by commas, until one that is none.
  size_t count = 0;
  std::string_view rest = visible;
  while (!rest.empty() && rest.front() != '-' && rest.front() != ',') {
    ++count;
    const size_t comma = rest.find(',');
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return count;
}

bool is_ours(const Host& host, const OrtMemoryDevice* device) {
  return host.ep().place_of(device) == gpu_memory && host.ep().vendor_of(device) == nvidia;
}

struct GpuTransfer : DataTransfer {
  explicit GpuTransfer(const Host& of) : host(of) {
    release = [](DataTransfer* self) { delete static_cast<GpuTransfer*>(self); };
    can_copy = [](const DataTransfer* self, const OrtMemoryDevice* from, const OrtMemoryDevice* to) {
      const Host& known = static_cast<const GpuTransfer*>(self)->host;
      const auto is_known = [&](const OrtMemoryDevice* device) {
        return known.ep().place_of(device) == host_memory || is_ours(known, device);
      };
      return is_known(from) && is_known(to) && (is_ours(known, from) || is_ours(known, to));
    };
    copy = [](DataTransfer* self, const OrtValue** from, OrtValue** to, OrtSyncStream** streams, size_t count) {
      const Host& known = static_cast<GpuTransfer*>(self)->host;
      return known.guarded([&] {
        for (size_t i = 0; i < count; ++i)
          copy_tensor(known, from[i], to[i], [&](const cuda::Device& device) {
            return streams && streams[i] ? WorkStream::of(device, handle_of(known, streams[i])) : nullptr;
          });
      });
    };
  }
  const Host& host;
};

}  // namespace

SyncStream* make_stream_for(const Host& host, const OrtMemoryDevice* device, const std::optional<void*>& programs) {
  const DeviceId gpu = device_of(host, device);
  if (gpu.is_host()) throw Error(ErrorCode::invalid_argument, "the host's memory has no stream: name a GPU");
  const cuda::Device& on = GpuMemory::of(gpu.ordinal()).device();
  return make_sync_stream(host, programs ? WorkStream::of(on, *programs) : WorkStream::make(on));
}

GpuFactory::GpuFactory(const ort::ApiBase& base) : Factory(base, gpu_provider_name) {
  supported_devices = [](EpFactory* self, const OrtHardwareDevice* const*, size_t, OrtEpDevice** ep_devices,
                         size_t most, size_t* given) {
    auto* own = static_cast<GpuFactory*>(self);
    return own->host().guarded([&] { own->list_gpus(ep_devices, most, given); });
  };
  vendor_id = [](const EpFactory*) { return nvidia; };
  create_allocator = [](EpFactory* self, const OrtMemoryInfo* memory, const OrtKeyValuePairs*,
                        ort::Allocator** allocator) {
    auto* own = static_cast<GpuFactory*>(self);
    return own->host().guarded([&] {
      const DeviceId gpu = device_of(own->host(), memory ? own->host().ep().device_of_info(memory) : nullptr);
      if (gpu.is_host()) {
        *allocator = nullptr;
      } else {
        *allocator = new GpuAllocator(own->host(), GpuMemory::of(gpu.ordinal()),
                                      own->memories_.at(static_cast<size_t>(gpu.ordinal())));
      }
    });
  };
  release_allocator = [](EpFactory*, ort::Allocator* allocator) { delete static_cast<GpuAllocator*>(allocator); };
  create_data_transfer = [](EpFactory* self, DataTransfer** transfer) {
    const Host& host = static_cast<GpuFactory*>(self)->host();
    return host.guarded([&] { *transfer = new GpuTransfer(host); });
  };
  is_stream_aware = [](const EpFactory*) { return true; };
  create_stream = [](EpFactory* self, const OrtMemoryDevice* device, const OrtKeyValuePairs* options,
                     SyncStream** stream) {
    const Host& host = static_cast<GpuFactory*>(self)->host();
    return host.guarded([&] {
      const auto given = options ? host.pairs(options) : std::map<std::string, std::string>();
      *stream = make_stream_for(host, device, parse_stream_options(given));
    });
  };
}

void GpuFactory::list_gpus(OrtEpDevice** ep_devices, size_t most, size_t* given) {
  const size_t count = std::min(count_gpus(), most);
  for (*given = 0; *given < count; ++*given) {
    const auto number = static_cast<uint32_t>(*given);
    if (gpus_.size() <= number) {
      OrtHardwareDevice* hardware = nullptr;
      host().check(host().ep().create_hardware_device(gpu_hardware, nvidia, number, "NVIDIA", nullptr, &hardware),
                   slot("GetEpApi"));
      gpus_.push_back(hardware);
      memories_.push_back(host().get<OrtMemoryInfo*>(
          slot("CreateMemoryInfo_V2"), fmt::format("Camshaft_GPU_{}", number).c_str(), gpu_memory, nvidia,
          static_cast<int32_t>(number), default_memory, any_alignment, device_allocator));
    }
    host().check(host().ep().create_ep_device(this, gpus_[number], nullptr, nullptr, ep_devices + number),
                 slot("GetEpApi"));
    host().check(host().ep().add_allocator_info(ep_devices[number], memories_[number]), slot("GetEpApi"));
  }
}

}  // namespace camshaft::ort_provider
