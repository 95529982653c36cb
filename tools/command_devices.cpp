// camshaft devices: what engines can run on here.
#include <fmt/format.h>

#include <memory>

#include "base/format_bytes.h"
#include "cpu/device.h"
#include "cpu/machine_limits.h"
#include "runtime/backends.h"
#include "tools/commands.h"
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

int devices(const Arguments& arguments) {
  const bool as_json = arguments.json;
  const int threads = parse_threads(arguments.threads);
  nlohmann::json json = nlohmann::json::array();
  for (const auto& backend : all_backends()) {
    const DeviceInfo& device = backend->device();
    const std::string warning = device.kind == "cpu" ? cpu::isa_warning(device.isa) : "";
    json.push_back({{"kind", device.kind},
                    {"name", device.name},
                    {"isa", device.isa},
                    {"cores", device.cores},
                    {"memory_bytes", device.memory_bytes},
                    {"features", device.features},
                    {"warning", warning}});
    cpu::MachineLimits limits;
    const bool measured = arguments.measure && device.kind == "cpu";
    if (measured) {
      limits = cpu::measure_limits(threads > 0 ? threads : device.cores);
      json.back()["limits"] = to_json(limits);
    }
    if (as_json) continue;
    fmt::print("{}: {}\n", device.kind, device.name);
    fmt::print("  kernels   {}\n", device.isa);
    fmt::print("  cores     {}\n", device.cores);
    fmt::print("  memory    {}\n", format_bytes(static_cast<size_t>(device.memory_bytes)));
    fmt::print("  features  {}\n", join(device.features));
    if (!warning.empty()) fmt::print("  warning   {}\n", warning);
    if (measured)
      fmt::print(
          "  limits    of {} threads: {:.0f} GFLOP/s f32; reading L1 {:.0f}, L2 {:.0f}, L3 {:.0f}, DRAM {:.0f} GB/s\n",
          limits.threads, limits.gflops, limits.l1_gbs, limits.l2_gbs, limits.l3_gbs, limits.dram_gbs);
  }
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
