// camshaft bench: how long a run takes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>

#include "camshaft/engine.hpp"
#include "camshaft/error.hpp"
#include "camshaft/profiler.hpp"
#include "tools/commands.h"
#include "tools/device_option.h"
#include "tools/format_bytes.h"
#include "tools/input_options.h"
#include "tools/interrupt.h"
#include "tools/latency.h"
#include "tools/layer_profile.h"
#include "tools/limit_options.h"
#include "tools/number_option.h"
#include "tools/open_engine.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/resident_memory.h"
#include "tools/seconds_since.h"
#include "tools/tensor_text.h"
#include "tools/trace.h"
#include "tools/weight_budget_option.h"

namespace camshaft::tools {

namespace {

using Clock = std::chrono::steady_clock;

struct BenchArguments {
  std::string path, device, threads, duration, warmup, iterations, trace, weight_budget;
  InputOptions inputs;
  LimitOptions limits;
  bool profile = false, json = false, on_request = false, no_data_transfers = false;
};

struct Measured {
  double load_ms = 0, first_run_ms = 0, throughput = 0;
  Latency latency;
  int64_t runs = 0;  // of which `together` at a time are waited for
  int together = 1;
  int64_t arena_bytes = 0, weight_bytes = 0;  // the former with what is kept for these shapes
  int64_t resident_before = 0, resident_after = 0;
  int threads = 0;
  bool from_model = false;
  std::vector<std::string> inputs;
  LayerProfile profile;
  std::vector<RunSpan> traced;
  WeightStreaming streaming;  // at the end
  bool is_on_host = true;
  double waited_ms_per_run = 0;  // of the measured ones, for weights; on a GPU not known
};

// Runs until both the seconds have passed and, when there is one, the number of runs is reached; at least once. More
// than one together are put into the device's queue and then waited for; `after` gets the time that one of them takes.
template <class AfterRun>
void run_for(Context& context, int together, double seconds, int64_t runs, const char* stage, Progress& progress,
             AfterRun after) {
  const auto start = Clock::now();
  for (int64_t run = 0;; run += together) {
    const double elapsed = seconds_since(start);
    if (run > 0 && (runs > 0 ? run >= runs : elapsed >= seconds)) return;
    progress.update(stage, runs > 0 ? static_cast<double>(run) / static_cast<double>(runs) : elapsed / seconds);
    const auto before = Clock::now();
    if (together == 1) {
      context.run();
    } else {
      for (int i = 0; i < together; ++i) context.enqueue(nullptr);
      context.synchronize();
    }
    after(seconds_since(before) / together);
  }
}

// Inputs in memory of the device, and outputs that stay there.
class OnDevice {
 public:
  OnDevice() = default;
  OnDevice(const Engine& engine, const std::vector<Tensor>& inputs, Context& context) {
    const Device device = engine.device();
    if (device.is_host())
      throw Error(ErrorCode::invalid_argument,
                  "--no-data-transfers needs an engine built with --device cuda: on the CPU nothing is copied");
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = engine.inputs()[i].name;
      memory_.push_back(holds_objects(inputs[i].dtype()) ? inputs[i] : inputs[i].copy(to_string(device)));
      context.set_input(name, memory_.back());
    }
    for (const TensorInfo& output : engine.outputs())
      if (!holds_objects(output.dtype)) context.bind_output(output.name, nullptr, 0, device);
  }

 private:
  std::vector<Tensor> memory_;
};

// So many runs that waiting for the device is a small part of their time.
int runs_together(Context& context) {
  constexpr double sample_seconds = 0.02;
  for (int warming = 0; warming < 3; ++warming) context.run();
  const auto start = Clock::now();
  context.run();
  return std::clamp(static_cast<int>(sample_seconds / std::max(seconds_since(start), 1e-9)), 2, 1000);
}

// An engine that is open and has run once.
struct Prepared {
  Engine engine;
  Context context;
  Measured measured;  // as far as it is known by then
  GivenInputs::Complete inputs;
  OnDevice on_device = {};
};

Prepared prepare(const BenchArguments& arguments, Progress& progress) {
  const int threads = parse_threads(arguments.threads);
  const GivenInputs given(arguments.inputs);
  Measured measured;
  measured.resident_before = resident_bytes();
  OpenedEngine opened = open_engine(arguments.path, arguments.device, threads, given.shapes(), progress, "measure",
                                    arguments.limits, arguments.weight_budget);
  measured.from_model = opened.from_model;
  measured.threads = threads > 0 ? threads : static_cast<int>(opened.engine.device_info()["cores"].integer());
  measured.weight_bytes = opened.engine.memory().weight_bytes;
  auto start = Clock::now();
  Prepared prepared{opened.engine,
                    opened.engine.create_context(arguments.limits.of_context(opened.from_model, threads)),
                    measured,
                    {}};
  prepared.context.set_cancellation(cancel_on_interrupt());
  prepared.measured.load_ms = (opened.seconds + seconds_since(start)) * 1e3;

  const Engine& engine = prepared.engine;
  prepared.inputs = given.complete(engine);
  const std::vector<Tensor>& tensors = prepared.inputs.tensors;
  LayerProfile& profile = prepared.measured.profile;
  NamedShapes shapes;
  for (size_t i = 0; i < tensors.size(); ++i) shapes[engine.inputs()[i].name] = tensors[i].dims();
  profile.costs = engine.layer_costs(shapes);
  const std::vector<LayerInfo> layers = engine.layers();
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].at_binding) profile.costs[i] = {};  // no work of a run
  if (!engine.device().is_host()) profile.limits = engine.device_info()["limits"];
  for (size_t i = 0; i < tensors.size(); ++i)
    prepared.measured.inputs.push_back(fmt::format(
        "{}: {}{}", engine.inputs()[i].name, camshaft::to_string(tensors[i].dtype()), to_string(tensors[i].dims())));
  start = Clock::now();
  if (arguments.no_data_transfers) {
    prepared.on_device = OnDevice(engine, tensors, prepared.context);
  } else {
    for (size_t i = 0; i < tensors.size(); ++i) prepared.context.set_input(engine.inputs()[i].name, tensors[i]);
  }
  prepared.context.run();
  prepared.measured.first_run_ms = seconds_since(start) * 1e3;
  if (arguments.no_data_transfers) prepared.measured.together = runs_together(prepared.context);
  return prepared;
}

struct Round {
  double duration = 0, warmup = 0;
  int64_t iterations = 0;
};

// By themselves, too.
constexpr int64_t most_traced_runs = 10;

void trace_runs(Prepared& prepared, const Round& round, Progress& progress) {
  const int64_t runs = round.iterations > 0 ? std::min(round.iterations, most_traced_runs) : most_traced_runs;
  Profiler profiler;
  prepared.context.set_profiler(&profiler);
  prepared.context.run();  // on a GPU the first one with a profiler records anew
  profiler.keep_runs(runs);
  run_for(prepared.context, 1, 0, runs, "tracing", progress, [](double) {});
  prepared.context.set_profiler(nullptr);
  prepared.measured.traced = profiler.runs();
}

void measure_round(Prepared& prepared, const Round& round, bool profile, Progress& progress) {
  Context& context = prepared.context;
  Measured& measured = prepared.measured;
  const int together = measured.together;
  if (round.warmup > 0) run_for(context, together, round.warmup, 0, "warming up", progress, [](double) {});
  std::vector<double> times;
  times.reserve(1 << 16);
  double total = 0;
  const double waited_before = prepared.engine.weight_streaming().waited_seconds;
  run_for(context, together, round.duration, round.iterations, "measuring", progress, [&](double seconds) {
    times.push_back(seconds * 1e3);
    total += seconds * together;
  });
  measured.runs = static_cast<int64_t>(times.size()) * together;
  measured.throughput = static_cast<double>(measured.runs) / total;
  measured.latency = summarize(std::move(times));
  measured.streaming = prepared.engine.weight_streaming();
  measured.is_on_host = prepared.engine.device().is_host();
  measured.waited_ms_per_run =
      (measured.streaming.waited_seconds - waited_before) * 1e3 / static_cast<double>(measured.runs);
  if (profile) {  // by itself, so that reading the clock at each layer is not part of the latency
    Profiler profiler;
    context.set_profiler(&profiler);
    run_for(context, 1, round.duration, round.iterations, "profiling", progress, [](double) {});
    context.set_profiler(nullptr);
    measured.profile.times = profiler.layers();
  }
  measured.arena_bytes = static_cast<int64_t>(context.memory_bytes());
  measured.resident_after = resident_bytes();
}

double total_flops(const Measured& m) {
  double total = 0;
  for (const LayerCost& cost : m.profile.costs) total += cost.flops;
  return total;
}

void print_text(const Measured& m) {
  fmt::print("inputs      {}\n", m.inputs.empty() ? "(none)" : join(m.inputs));
  fmt::print("threads     {}\n", m.threads);
  fmt::print("{}{:.2f} ms\n", m.from_model ? "build       " : "load        ", m.load_ms);
  fmt::print("first run   {:.2f} ms\n", m.first_run_ms);
  fmt::print("latency     min {:.3f}, mean {:.3f}, median {:.3f}, p90 {:.3f}, p95 {:.3f}, p99 {:.3f}, max {:.3f} ms\n",
             m.latency.min, m.latency.mean, m.latency.median, m.latency.p90, m.latency.p95, m.latency.p99,
             m.latency.max);
  const double flops = total_flops(m);
  fmt::print("throughput  {:.1f} runs a second, over {} runs{}\n", m.throughput, m.runs,
             flops > 0 ? fmt::format("; {:.0f} GFLOP/s in the fastest", flops / m.latency.min * 1e-6) : "");
  if (m.together > 1)
    fmt::print("            inputs and outputs on the device; a latency is the mean of {} runs enqueued together\n",
               m.together);
  fmt::print("memory      arena {}, weights {}, resident {}\n", format_bytes(static_cast<size_t>(m.arena_bytes)),
             format_bytes(static_cast<size_t>(m.weight_bytes)), format_bytes(static_cast<size_t>(m.resident_after)));
  if (m.streaming.budget >= 0) {
    fmt::print("streaming   {}\n", format_streaming(m.streaming));
    if (m.is_on_host) fmt::print("            layers waited {:.3f} ms a run for weights\n", m.waited_ms_per_run);
  }
  if (!m.profile.times.empty()) print_profile(m.profile);
  if (!m.traced.empty()) fmt::print("trace       {} runs, for ui.perfetto.dev or chrome://tracing\n", m.traced.size());
}

nlohmann::json measured_json(const Measured& m, bool profile) {
  nlohmann::json json = {{"latency_ms", to_json(m.latency)},
                         {"throughput_per_s", m.throughput},
                         {"load_ms", m.load_ms},
                         {"first_run_ms", m.first_run_ms},
                         {"runs", m.runs},
                         {"runs_together", m.together},
                         {"threads", m.threads},
                         {"inputs", m.inputs},
                         {"arena_bytes", m.arena_bytes},
                         {"weight_bytes", m.weight_bytes},
                         {"flops", total_flops(m)},
                         {"resident_bytes_before", m.resident_before},
                         {"resident_bytes", m.resident_after}};
  if (m.streaming.budget >= 0) {
    json["weight_streaming"] = to_json(m.streaming);
    if (m.is_on_host) json["waited_ms_per_run"] = m.waited_ms_per_run;
  }
  if (profile) add_profile(json, m.profile);
  return json;
}

void print_line(const nlohmann::json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
}

// A round for each line of stdin, so that a caller can alternate with other programs that are loaded as well.
void answer_requests(Prepared& prepared, const Round& round, bool profile, Progress& progress) {
  print_line({{"load_ms", prepared.measured.load_ms}, {"first_run_ms", prepared.measured.first_run_ms}});
  for (std::string line; std::getline(std::cin, line);) {
    measure_round(prepared, round, profile, progress);
    print_line(measured_json(prepared.measured, profile));
  }
}

int bench(const BenchArguments& arguments) {
  if (!arguments.trace.empty()) {
    if (arguments.on_request)
      throw Error(ErrorCode::invalid_argument, "--trace and --on-request exclude each other: a trace is of one round");
    check_distinct(arguments.path, arguments.trace);
    check_distinct(arguments.inputs.archive, arguments.trace);
    check_writable(arguments.trace);
  }
  const Round round{parse_seconds(arguments.duration, "duration", 3), parse_seconds(arguments.warmup, "warmup", 0.5),
                    parse_whole(arguments.iterations, "iterations", 1, 1'000'000'000, 0)};
  Progress progress;
  Prepared prepared = prepare(arguments, progress);
  if (arguments.on_request) {
    answer_requests(prepared, round, arguments.profile, progress);
    return 0;
  }
  measure_round(prepared, round, arguments.profile, progress);
  if (!arguments.trace.empty()) {
    trace_runs(prepared, round, progress);
    const Measured& m = prepared.measured;
    write_trace(arguments.trace, {prepared.engine, m.profile.costs, m.traced, m.inputs, m.threads});
  }
  if (arguments.json) {
    print_json(measured_json(prepared.measured, arguments.profile));
  } else {
    print_text(prepared.measured);
  }
  return 0;
}

}  // namespace

Command add_bench_command(CLI::App& app) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench", "Measure latency, throughput and memory, and where the time goes");
  command
      ->add_option("PATH", arguments->path,
                   "An engine, or an ONNX model, which is then compiled in memory: unverified, so without kernels that "
                   "round more\n"
                   "(Winograd), which built engines may have")
      ->required();
  add_device_option(*command, arguments->device, run_device_help);
  command->add_option("--threads", arguments->threads, "Threads to run on (default: one for each core)")
      ->type_name("N");
  command->add_option("--duration", arguments->duration, "Measure for this long, at least one run (default: 3)")
      ->type_name("SECONDS");
  command->add_option("--warmup", arguments->warmup, "Run for this long first, unmeasured (default: 0.5)")
      ->type_name("SECONDS");
  command->add_option("--iterations", arguments->iterations, "Measure this many runs instead of --duration")
      ->type_name("N");
  command->add_flag("--no-data-transfers", arguments->no_data_transfers,
                    "Keep inputs and outputs on the device, and wait for it after many runs only: what it takes to "
                    "compute");
  command->add_flag("--profile", arguments->profile, "Also measure each layer, and list them by time");
  command
      ->add_option("--trace", arguments->trace,
                   "Also write when each layer began in ten further runs (or --iterations, if fewer), as a trace for\n"
                   "ui.perfetto.dev and chrome://tracing")
      ->type_name("OUT.json");
  command->add_flag("--json", arguments->json, "Print the figures as JSON");
  command->add_flag("--on-request", arguments->on_request,
                    "Load, run once, then measure once for each line on stdin: a line of JSON each");
  arguments->inputs.add_to(*command);
  add_weight_budget_option(*command, arguments->weight_budget);
  arguments->limits.add_to(*command, "fold constants of a model, to measure kernels and to run it");
  command->footer(
      "Inputs that no file gives are made up from --seed. The time to load covers reading the engine (compiling the\n"
      "model) and making a context; the first run also lays out memory for the shapes.\n\n"
      "Examples:\n"
      "  camshaft bench model.engine --shapes x:8x3x224x224 --threads 4\n"
      "  camshaft bench model.engine --inputs in.npz --duration 10 --json\n"
      "  camshaft bench model.engine --trace run.json                open run.json on ui.perfetto.dev");
  return {command, [arguments] { return bench(*arguments); }};
}

}  // namespace camshaft::tools
