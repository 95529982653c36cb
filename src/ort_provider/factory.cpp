#include "ort_provider/factory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "camshaft/camshaft.h"
#include "ort_provider/context_node.h"
#include "ort_provider/gpu_factory.h"
#include "ort_provider/provider.h"

namespace camshaft::ort_provider {

namespace {

using ort::slot;

OrtStatus* list_devices(EpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                        OrtEpDevice** ep_devices, size_t most, size_t* given) {
  const Host& host = static_cast<Factory*>(self)->host();
  return host.guarded([&] {
    *given = 0;
    for (size_t i = 0; i < count && *given < most; ++i) {
      if (host.call<HardwareKind>(slot("HardwareDevice_Type"), devices[i]) != cpu_hardware) continue;
      host.check(host.ep().create_ep_device(self, devices[i], nullptr, nullptr, ep_devices + *given), slot("GetEpApi"));
      ++*given;
    }
  });
}

OrtStatus* create_provider(EpFactory* self, const OrtHardwareDevice* const* devices, const OrtKeyValuePairs* const*,
                           size_t count, const OrtSessionOptions* session, const OrtLogger* logger, Ep** ep) {
  const auto& factory = *static_cast<Factory*>(self);
  const Host& host = factory.host();
  return host.guarded([&] {
    auto* entries = host.get<OrtKeyValuePairs*>(slot("GetSessionOptionsConfigEntries"), session);
    const std::map<std::string, std::string> pairs = host.pairs(entries);
    host.call<void>(slot("ReleaseKeyValuePairs"), entries);
    DeviceId memory;
    if (count > 0 && host.call<HardwareKind>(slot("HardwareDevice_Type"), devices[0]) == gpu_hardware)
      memory = DeviceId::gpu(static_cast<int>(host.call<uint32_t>(slot("HardwareDevice_DeviceId"), devices[0])));
    *ep = new Provider(host, factory.provider(), parse_options(pairs, factory.provider(), memory), Log(host, logger));
  });
}

OrtStatus* judge_compatibility(EpFactory*, const OrtHardwareDevice* const*, size_t, const char* text,
                               Compatibility* verdict) {
  // Engines name the version of their format, and are checked when they are loaded; kernels are chosen again on another
  // machine.
  const std::string given = text ? text : "";
  *verdict = given == compatibility_text()    ? best_fit
             : given.starts_with("camshaft ") ? better_compiled_again
                                              : not_applicable;
  return nullptr;
}

}  // namespace

Factory::Factory(const ort::ApiBase& base, const char* provider) : host_(base), provider_(provider) {
  name = [](const EpFactory* self) { return static_cast<const Factory*>(self)->provider(); };
  vendor = [](const EpFactory*) { return "Camshaft"; };
  supported_devices = list_devices;
  create_ep = create_provider;
  release_ep = [](EpFactory*, Ep* ep) { delete static_cast<Provider*>(ep); };
  vendor_id = [](const EpFactory*) { return uint32_t{0}; };
  library_version = [](const EpFactory*) { return camshaft_version(); };
  validate_compatibility = judge_compatibility;
  create_allocator = [](EpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                        ort::Allocator** allocator) -> OrtStatus* {
    *allocator = nullptr;
    return nullptr;
  };
  release_allocator = [](EpFactory*, ort::Allocator*) {};
  create_data_transfer = [](EpFactory*, DataTransfer** transfer) -> OrtStatus* {
    *transfer = nullptr;
    return nullptr;
  };
  is_stream_aware = [](const EpFactory*) { return false; };
}

namespace {

// Those that ONNX Runtime asks for, made once for each.
struct Factories {
  explicit Factories(const ort::ApiBase& base) : host(base), gpu(base) {}
  Factory host;
  GpuFactory gpu;

  static Factories& of(const ort::ApiBase& base) {
    static auto* const mutex = new std::mutex;
    static auto* const made = new std::map<const ort::ApiBase*, std::unique_ptr<Factories>>;
    const std::lock_guard lock(*mutex);
    std::unique_ptr<Factories>& all = (*made)[&base];
    if (!all) all = std::make_unique<Factories>(base);
    return *all;
  }
};

void give_factories(const ort::ApiBase& base, EpFactory** factories, size_t most, size_t* count) {
  Factories& all = Factories::of(base);
  EpFactory* const made[] = {&all.host, &all.gpu};
  for (*count = 0; *count < std::min(most, std::size(made)); ++*count) factories[*count] = made[*count];
}

}  // namespace

}  // namespace camshaft::ort_provider

using camshaft::ort::ApiBase;
using camshaft::ort_provider::EpFactory;
using camshaft::ort_provider::OrtLogger;
using camshaft::ort_provider::OrtStatus;

// The two functions that ONNX Runtime looks for in the library of a provider.
extern "C" {

CAMSHAFT_API OrtStatus* CreateEpFactories(const char*, const ApiBase* base, const OrtLogger*, EpFactory** factories,
                                          size_t most, size_t* count) {
  *count = 0;
  try {
    camshaft::ort_provider::give_factories(*base, factories, most, count);
    return nullptr;
  } catch (const std::exception& e) {
    // Of a version that lacks the functions a status is made by the oldest table.
    const auto* table = base->get_api(1);
    return reinterpret_cast<OrtStatus* (*)(camshaft::ort::StatusCode, const char*)>(
        table->functions[camshaft::ort::slot("CreateStatus")])(camshaft::ort::not_implemented, e.what());
  }
}

CAMSHAFT_API OrtStatus* ReleaseEpFactory(EpFactory*) {
  return nullptr;  // see Factory
}
}
