// camshaft run: an engine on one set of inputs.
#include <fmt/format.h>

#include <memory>

#include "camshaft/engine.hpp"
#include "camshaft/error.hpp"
#include "tools/commands.h"
#include "tools/container_arrays.h"
#include "tools/device_option.h"
#include "tools/input_options.h"
#include "tools/interrupt.h"
#include "tools/limit_options.h"
#include "tools/npy.h"
#include "tools/npz.h"
#include "tools/number_option.h"
#include "tools/open_engine.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/tensor_text.h"
#include "tools/weight_budget_option.h"

namespace camshaft::tools {

namespace {

// Of one output: a classifier's maps are as many as the rows it is given.
constexpr size_t most_arrays_printed = 16;

struct RunArguments {
  std::string path, device, outputs, threads, weight_budget;
  InputOptions inputs;
  LimitOptions limits;
  bool quiet = false;
};

int run(const RunArguments& arguments) {
  const int threads = parse_threads(arguments.threads);
  const GivenInputs given(arguments.inputs);
  check_distinct(arguments.path, arguments.outputs);
  check_distinct(arguments.inputs.archive, arguments.outputs);
  check_writable(arguments.outputs);
  Progress progress;
  const OpenedEngine opened = open_engine(arguments.path, arguments.device, threads, given.shapes(), progress,
                                          "heuristic", arguments.limits, arguments.weight_budget);
  const Engine& engine = opened.engine;
  const GivenInputs::Complete inputs = given.complete(engine);
  if (!inputs.generated.empty()) fmt::print(stderr, "camshaft: seeded random values for {}\n", join(inputs.generated));

  Context context = engine.create_context(arguments.limits.of_context(opened.from_model, threads));
  context.set_cancellation(cancel_on_interrupt());
  for (size_t i = 0; i < inputs.tensors.size(); ++i) context.set_input(engine.inputs()[i].name, inputs.tensors[i]);
  progress.update("running", 0);
  context.run();
  progress.clear();

  NamedTensors outputs;
  for (const TensorInfo& info : engine.outputs()) {
    NamedTensors arrays;
    append_arrays(info.name, context.output(info.name), arrays);
    if (arrays.empty() && !arguments.quiet) fmt::print("{}: {}  empty\n", info.name, info.type);
    size_t printed = 0;
    for (auto& [name, tensor] : arrays) {
      if (!arguments.quiet && printed++ < most_arrays_printed)
        fmt::print("{}: {}{}  {}\n", name, camshaft::to_string(tensor.dtype()), to_string(tensor.dims()),
                   statistics(tensor));
      if (arguments.outputs.empty()) continue;
      const DType stored = to_numpy(Tensor(tensor.dtype(), Dims{0})).dtype();
      if (stored != tensor.dtype())
        fmt::print(stderr, "camshaft: output '{}' is written as {}: NumPy has no {}\n", name,
                   camshaft::to_string(stored), camshaft::to_string(tensor.dtype()));
      outputs.emplace_back(name, tensor);
    }
    if (printed > most_arrays_printed)
      fmt::print("{}: {}  {} more arrays\n", info.name, info.type, printed - most_arrays_printed);
  }
  if (!arguments.outputs.empty()) write_npz(arguments.outputs, outputs);
  return 0;
}

}  // namespace

Command add_run_command(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Run a model or an engine on arrays from files, or on seeded ones");
  command->add_option("PATH", arguments->path, "An engine, or an ONNX model, which is then compiled in memory")
      ->required();
  add_device_option(*command, arguments->device, run_device_help);
  command->add_option("--outputs", arguments->outputs, "Write the outputs, by their names, as numpy.load reads them")
      ->type_name("OUT.npz");
  command->add_option("--threads", arguments->threads, "Threads to run on (default: one for each core)")
      ->type_name("N");
  command->add_flag("-q,--quiet", arguments->quiet, "Do not print the outputs' shapes and statistics");
  arguments->inputs.add_to(*command);
  add_weight_budget_option(*command, arguments->weight_budget);
  arguments->limits.add_to(*command, "fold constants of a model and to run it");
  command->footer(
      "Inputs that no file gives are made up from --seed, the same on every machine; stderr says which.\n"
      "Dtypes that NumPy lacks are exchanged as wider ones without loss: bf16 and 8- and 4-bit floats as f32, 4-bit\n"
      "integers as 8-bit ones.\n"
      "Of outputs that are sequences, optionals and maps the elements are written: NAME/0, NAME/1 and so on, "
      "NAME/keys\n"
      "and NAME/values; of a sequence of maps NAME/0/keys, NAME/0/values, NAME/1/keys and so on.\n\n"
      "Examples:\n"
      "  camshaft run model.engine --inputs in.npz --outputs out.npz\n"
      "  camshaft run model.onnx --input image=cat.npy --shapes mask:1x128");
  return {command, [arguments] { return run(*arguments); }};
}

}  // namespace camshaft::tools
