// camshaft devices: what engines can run on here.
#include <fmt/format.h>

#include <memory>

#include "backends/cpu/device.h"
#include "backends/cpu/machine_limits.h"
#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/device_limits.h"
#include "backends/cuda/libraries/libraries.h"
#include "base/format_bytes.h"
#include "tools/commands.h"
#include "tools/device_limits.h"
#include "tools/number_option.h"
#include "tools/report.h"

namespace camshaft {

namespace {

struct Arguments {
  bool json = false, measure = false;
  std::string threads;
};

nlohmann::json to_json(const cpu::MachineLimits& limits) {
  return {{"threads", limits.threads},   {"gflops", limits.gflops},    {"l1_gbs", limits.l1_gbs},
          {"l2_gbs", limits.l2_gbs},     {"l3_gbs", limits.l3_gbs},    {"dram_gbs", limits.dram_gbs},
          {"l2_bytes", limits.l2_bytes}, {"l3_bytes", limits.l3_bytes}};
}

// The GPUs, and why they cannot be used where they cannot.
void add_gpus(nlohmann::json& json, bool as_json) {
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
    json.push_back({{"kind", "cuda"},
                    {"device", to_string(DeviceId::gpu(gpu.ordinal))},
                    {"name", gpu.name},
                    {"isa", cuda::architecture(gpu.features.capability)},
                    {"cores", gpu.multiprocessors},
                    {"memory_bytes", gpu.memory_bytes},
                    {"l2_bytes", gpu.l2_bytes},
                    {"driver", driver.version},
                    {"compiler", nvrtc.version},
                    {"cublaslt", blas.version},
                    {"cudnn", dnn.version},
                    {"limits", to_json(cuda::limits_of(gpu))},
                    {"warning", warning}});
    if (as_json) continue;
    fmt::print("{}: {}\n", to_string(DeviceId::gpu(gpu.ordinal)), gpu.name);
    fmt::print("  kernels   {}, compiled by NVRTC {}\n", cuda::architecture(gpu.features.capability),
               nvrtc.version.empty() ? "(none)" : nvrtc.version);
    fmt::print("  cores     {} multiprocessors\n", gpu.multiprocessors);
    fmt::print("  memory    {}, L2 {}\n", format_bytes(static_cast<size_t>(gpu.memory_bytes)),
               format_bytes(static_cast<size_t>(gpu.l2_bytes)));
    fmt::print("  limits    {}\n", describe(cuda::limits_of(gpu)));
    fmt::print("  driver    CUDA {}\n", driver.version);
    fmt::print("  libraries {}\n", blas.problem.empty() ? "cuBLASLt " + blas.version : blas.problem);
    fmt::print("            {}\n", dnn.problem.empty() ? "cuDNN " + dnn.version : dnn.problem);
    if (!warning.empty()) fmt::print("  warning   {}\n", warning);
  }
  if (gpus.empty() && !as_json) fmt::print("cuda: {}\n", problem);
}

int devices(const Arguments& arguments) {
  const bool as_json = arguments.json;
  const int threads = parse_threads(arguments.threads);
  nlohmann::json json = nlohmann::json::array();
  const DeviceInfo device = cpu::describe_cpu();
  const std::string warning = cpu::isa_warning(device.isa);
  json.push_back({{"kind", device.kind},
                  {"device", to_string(DeviceId::host)},
                  {"name", device.name},
                  {"isa", device.isa},
                  {"cores", device.cores},
                  {"memory_bytes", device.memory_bytes},
                  {"features", device.features},
                  {"warning", warning}});
  cpu::MachineLimits limits;
  if (arguments.measure) {
    limits = cpu::measure_limits(threads > 0 ? threads : device.cores);
    json.back()["limits"] = to_json(limits);
  }
  if (!as_json) {
    fmt::print("{}: {}\n", device.kind, device.name);
    fmt::print("  kernels   {}\n", device.isa);
    fmt::print("  cores     {}\n", device.cores);
    fmt::print("  memory    {}\n", format_bytes(static_cast<size_t>(device.memory_bytes)));
    fmt::print("  features  {}\n", join(device.features));
    if (!warning.empty()) fmt::print("  warning   {}\n", warning);
    if (arguments.measure)
      fmt::print(
          "  limits    of {} threads: {:.0f} GFLOP/s f32; reading L1 {:.0f}, L2 {:.0f}, L3 {:.0f}, DRAM {:.0f} GB/s\n",
          limits.threads, limits.gflops, limits.l1_gbs, limits.l2_gbs, limits.l3_gbs, limits.dram_gbs);
  }
  add_gpus(json, as_json);
  if (as_json) print_json(json);
  return 0;
}

}  // namespace

Command add_devices_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("devices", "List the devices that engines can run on");
  command->add_flag("--json", arguments->json, "Print the list as JSON");
  command->add_flag("--measure", arguments->measure, "Also measure how fast arithmetic and memory are here");
  command->add_option("--threads", arguments->threads, "Threads to measure with (default: one for each core)")
      ->type_name("N");
  command->footer("'kernels' is the instruction set that kernels are chosen for on this machine.");
  return {command, [arguments] { return devices(*arguments); }};
}

}  // namespace camshaft
