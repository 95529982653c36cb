// What there is: operators, devices.
#include <fmt/format.h>

#include "api/describe.h"
#include "api/record.h"
#include "api/status.h"
#include "backends/cpu/device.h"
#include "backends/cpu/machine_limits.h"
#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/device_limits.h"
#include "backends/cuda/libraries/libraries.h"
#include "base/available_cores.h"
#include "base/device_id.h"
#include "onnx/converters.h"

namespace camshaft::api {

namespace {

using nlohmann::json;

json describe(const cpu::MachineLimits& limits) {
  return {{"threads", limits.threads},
          {"gflops", limits.gflops},
          {"gexps", limits.gexps},
          {"byte_tile_gops", limits.byte_tile_gops},
          {"bf16_tile_gflops", limits.bf16_tile_gflops},
          {"l1_gbs", limits.l1_gbs},
          {"l2_gbs", limits.l2_gbs},
          {"l3_gbs", limits.l3_gbs},
          {"dram_gbs", limits.dram_gbs},
          {"l2_bytes", limits.l2_bytes},
          {"l3_bytes", limits.l3_bytes}};
}

json host(int measure_threads) {
  const DeviceInfo device = cpu::describe_cpu();
  json facts = api::describe(device);
  facts.erase("limits");  // which are measured
  facts["device"] = to_string(DeviceId::host);
  facts["warning"] = cpu::isa_warning(device.isa);
  if (measure_threads != 0) facts["limits"] = describe(cpu::measure_limits(measure_threads));
  return facts;
}

// The GPUs, and why they cannot be used where they cannot.
void add_gpus(json& list) {
  const cuda::Library<cuda::api::Driver>& driver = cuda::driver_library();
  const cuda::Library<cuda::api::Nvrtc>& nvrtc = cuda::nvrtc_library();
  std::string problem = driver.problem;
  std::vector<cuda::DeviceFacts> gpus;
  if (problem.empty()) {
    gpus = cuda::list_devices(driver.functions);
    problem = gpus.empty() ? "the NVIDIA driver finds no GPU" : nvrtc.problem;
  }
  for (const cuda::DeviceFacts& gpu : gpus) {
    const cuda::Library<cuda::api::Blas>& blas = cuda::blas_library();  // opening them takes a while
    const cuda::Library<cuda::api::Dnn>& dnn = cuda::dnn_library();
    const std::string warning = !gpu.features.is_supported
                                    ? fmt::format("too old: compute capability {}.{} or newer is needed",
                                                  cuda::oldest_capability / 10, cuda::oldest_capability % 10)
                                    : problem;
    list.push_back({{"kind", "cuda"},
                    {"device", to_string(DeviceId::gpu(gpu.ordinal))},
                    {"name", gpu.name},
                    {"isa", cuda::architecture(gpu.features.capability)},
                    {"cores", gpu.multiprocessors},
                    {"memory_bytes", gpu.memory_bytes},
                    {"l2_bytes", gpu.l2_bytes},
                    {"driver", driver.version},
                    {"compiler", nvrtc.version},
                    {"cublaslt", blas.version},
                    {"cublaslt_problem", blas.problem},
                    {"cudnn", dnn.version},
                    {"cudnn_problem", dnn.problem},
                    {"limits", api::describe(cuda::limits_of(gpu))},
                    {"warning", warning}});
  }
  if (gpus.empty()) list.push_back({{"kind", "cuda"}, {"name", ""}, {"warning", problem}});
}

}  // namespace

}  // namespace camshaft::api

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_list_operators(camshaft_record** operators) {
  return guarded([&] {
    nlohmann::json list = nlohmann::json::array();
    for (const onnx::KnownOperator& op : onnx::known_operators())
      list.push_back(
          {{"domain", op.domain.empty() ? "ai.onnx" : op.domain}, {"operator", op.op_type}, {"since", op.since}});
    give(operators, "operators", [&] { return new_record(std::move(list)); });
  });
}

int32_t camshaft_available_cores() {
  int32_t cores = 1;
  guarded([&] { cores = available_cores(); });  // it reads files; one core there is in any case
  return cores;
}

camshaft_status camshaft_list_devices(int32_t measure_threads, camshaft_record** devices) {
  return guarded([&] {
    given(devices, "devices");
    nlohmann::json list = nlohmann::json::array();
    list.push_back(host(measure_threads));
    add_gpus(list);
    *devices = new_record(std::move(list));
  });
}
