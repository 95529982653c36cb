// camshaft devices: what engines can run on here.
#include <fmt/format.h>

#include <memory>

#include "camshaft/system.hpp"
#include "tools/commands.h"
#include "tools/device_limits.h"
#include "tools/format_bytes.h"
#include "tools/number_option.h"
#include "tools/report.h"

namespace camshaft::tools {

namespace {

struct DevicesArguments {
  bool json = false, measure = false;
  std::string threads;
};

void print_host(const Record& host) {
  fmt::print("{}: {}\n", host["kind"].text(), host["name"].text());
  fmt::print("  kernels   {}\n", host["isa"].text());
  fmt::print("  cores     {}\n", host["cores"].integer());
  fmt::print("  memory    {}\n", format_bytes(static_cast<size_t>(host["memory_bytes"].integer())));
  fmt::print("  features  {}\n", join(host["features"].texts()));
  if (const std::string warning = host["warning"].text(); !warning.empty()) fmt::print("  warning   {}\n", warning);
  const Record limits = host["limits"];
  if (!limits.is_null())
    fmt::print(
        "  limits    of {} threads: {:.0f} GFLOP/s f32, {:.1f}e9 exponentials a second; reading L1 {:.0f}, L2 {:.0f}, "
        "L3 {:.0f}, DRAM {:.0f} GB/s\n",
        limits["threads"].integer(), limits["gflops"].number(), limits["gexps"].number(), limits["l1_gbs"].number(),
        limits["l2_gbs"].number(), limits["l3_gbs"].number(), limits["dram_gbs"].number());
  if (!limits.is_null() && limits["byte_tile_gops"].number() > 0)
    fmt::print("            of tiles: {:.0f} GOP/s of 8 bits, {:.0f} GFLOP/s bf16\n", limits["byte_tile_gops"].number(),
               limits["bf16_tile_gflops"].number());
}

void print_gpu(const Record& gpu) {
  const auto library = [&](const char* name, const char* version, const char* problem) {
    const std::string why = gpu[problem].text();
    return why.empty() ? fmt::format("{} {}", name, gpu[version].text()) : why;
  };
  const std::string compiler = gpu["compiler"].text(), warning = gpu["warning"].text();
  fmt::print("{}: {}\n", gpu["device"].text(), gpu["name"].text());
  fmt::print("  kernels   {}, compiled by NVRTC {}\n", gpu["isa"].text(), compiler.empty() ? "(none)" : compiler);
  fmt::print("  cores     {} multiprocessors\n", gpu["cores"].integer());
  fmt::print("  memory    {}, L2 {}\n", format_bytes(static_cast<size_t>(gpu["memory_bytes"].integer())),
             format_bytes(static_cast<size_t>(gpu["l2_bytes"].integer())));
  fmt::print("  limits    {}\n", describe_limits(nlohmann::json::parse(gpu["limits"].json())));
  fmt::print("  driver    CUDA {}\n", gpu["driver"].text());
  fmt::print("  libraries {}\n", library("cuBLASLt", "cublaslt", "cublaslt_problem"));
  fmt::print("            {}\n", library("cuDNN", "cudnn", "cudnn_problem"));
  if (!warning.empty()) fmt::print("  warning   {}\n", warning);
}

int show_devices(const DevicesArguments& arguments) {
  const int threads = parse_threads(arguments.threads);
  Record found = camshaft::devices();
  if (arguments.measure)
    found = camshaft::devices(threads > 0 ? threads : static_cast<int>(found[0]["cores"].integer()));
  nlohmann::json json = nlohmann::json::array();
  for (size_t i = 0; i < found.size(); ++i) {
    const bool is_there = !found[i]["name"].text().empty() || i == 0;
    if (arguments.json) {
      if (is_there) json.push_back(nlohmann::json::parse(found[i].json()));
    } else if (i == 0) {
      print_host(found[i]);
    } else if (is_there) {
      print_gpu(found[i]);
    } else {
      fmt::print("cuda: {}\n", found[i]["warning"].text());
    }
  }
  if (arguments.json) print_json(json);
  return 0;
}

}  // namespace

Command add_devices_command(CLI::App& app) {
  auto arguments = std::make_shared<DevicesArguments>();
  CLI::App* command = app.add_subcommand("devices", "List the devices that engines can run on");
  command->add_flag("--json", arguments->json, "Print the list as JSON");
  command->add_flag("--measure", arguments->measure, "Also measure how fast arithmetic and memory are here");
  command->add_option("--threads", arguments->threads, "Threads to measure with (default: one for each core)")
      ->type_name("N");
  command->footer("'kernels' is the instruction set that kernels are chosen for on this machine.");
  return {command, [arguments] { return show_devices(*arguments); }};
}

}  // namespace camshaft::tools
