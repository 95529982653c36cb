#include "ort_provider/factory.h"

#include <map>
#include <memory>
#include <mutex>

#include "camshaft/camshaft.h"
#include "ort_provider/context_node.h"
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

OrtStatus* create_provider(EpFactory* self, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, size_t,
                           const OrtSessionOptions* session, const OrtLogger* logger, Ep** ep) {
  const Host& host = static_cast<Factory*>(self)->host();
  return host.guarded([&] {
    auto* entries = host.get<OrtKeyValuePairs*>(slot("GetSessionOptionsConfigEntries"), session);
    const std::map<std::string, std::string> pairs = host.pairs(entries);
    host.call<void>(slot("ReleaseKeyValuePairs"), entries);
    *ep = new Provider(host, parse_options(pairs), Log(host, logger));
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

Factory& Factory::of(const ort::ApiBase& base) {
  static auto* const mutex = new std::mutex;
  static auto* const made = new std::map<const ort::ApiBase*, std::unique_ptr<Factory>>;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<Factory>& factory = (*made)[&base];
  if (!factory) factory.reset(new Factory(base));
  return *factory;
}

Factory::Factory(const ort::ApiBase& base) : host_(base) {
  name = [](const EpFactory*) { return provider_name; };
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
  create_data_transfer = [](EpFactory*, void** transfer) -> OrtStatus* {
    *transfer = nullptr;
    return nullptr;
  };
  is_stream_aware = [](const EpFactory*) { return false; };
}

}  // namespace camshaft::ort_provider

using camshaft::ort::ApiBase;
using camshaft::ort_provider::EpFactory;
using camshaft::ort_provider::Factory;
using camshaft::ort_provider::OrtLogger;
using camshaft::ort_provider::OrtStatus;

// The two functions that ONNX Runtime looks for in the library of a provider.
extern "C" {

CAMSHAFT_API OrtStatus* CreateEpFactories(const char*, const ApiBase* base, const OrtLogger*, EpFactory** factories,
                                          size_t most, size_t* count) {
  *count = 0;
  if (most == 0) return nullptr;
  try {
    factories[0] = &Factory::of(*base);
    *count = 1;
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
