// camshaft devices: what engines can run on here.
#include <fmt/format.h>

#include <memory>

#include "base/format_bytes.h"
#include "runtime/backends.h"
#include "tools/commands.h"
#include "tools/report.h"

namespace camshaft {

namespace {

int devices(bool as_json) {
  nlohmann::json json = nlohmann::json::array();
  for (const auto& backend : all_backends()) {
    const DeviceInfo& device = backend->device();
    json.push_back({{"kind", device.kind},
                    {"name", device.name},
                    {"isa", device.isa},
                    {"cores", device.cores},
                    {"memory_bytes", device.memory_bytes},
                    {"features", device.features}});
    if (as_json) continue;
    fmt::print("{}: {}\n", device.kind, device.name);
    fmt::print("  kernels   {}\n", device.isa);
    fmt::print("  cores     {}\n", device.cores);
    fmt::print("  memory    {}\n", format_bytes(static_cast<size_t>(device.memory_bytes)));
    fmt::print("  features  {}\n", join(device.features));
  }
  if (as_json) print_json(json);
  return 0;
}

}  // namespace

Command add_devices_command(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "List the devices that engines can run on");
  command->add_flag("--json", *as_json, "Print the list as JSON");
  command->footer("'kernels' is the instruction set that kernels are chosen for on this machine.");
  return {command, [as_json] { return devices(*as_json); }};
}

}  // namespace camshaft
