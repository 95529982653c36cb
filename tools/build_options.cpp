#include "tools/build_options.h"

#include <fmt/format.h>

#include "tools/device_option.h"
#include "tools/interrupt.h"
#include "tools/number_option.h"

namespace camshaft::tools {

namespace {

void add_rules(CLI::App& command, const char* name, std::vector<std::string>& rules, const char* help) {
  command.add_option(name, rules, help)
      ->type_name("NAME:PRECISION[,…]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group("Precision of layers");
}

}  // namespace

void BuildArguments::add_to(CLI::App& command, const char* shapes_help) {
  add_device_option(command, device, "What to run on: cpu (default), cuda, the first GPU, or cuda:N");
  command.add_flag("--fp16", fp16,
                   "Allow tensors within the model to be stored in fp16, and products to be taken in it");
  command.add_flag(
      "--bf16", bf16,
      "The same in bf16; where both are allowed it is fp16. On CPUs with AVX512_BF16 tensors stay fp32, and "
      "operands of products may be rounded");
  command.add_flag("--tf32", tf32,
                   "Allow products of fp32 to be taken of operands rounded to TF32 (11 significant bits)");
  command.add_flag("--int8", int8, "Allow layers to be computed on integers of 8 bits, by the ranges of a calibration");
  command.add_flag("--fp8", fp8,
                   "The same on floats of 8 bits (E4M3), on GPUs of compute capability 8.9 or more; where both are "
                   "allowed it is the faster one");
  command.add_option("--calibration", calibration, "The ranges that --int8 and --fp8 need, see `camshaft calibrate`")
      ->type_name("FILE");
  command.add_flag(
      "--best", best,
      "Allow all precisions that are faster here: fp16 or bf16, tf32, and int8 and fp8 with a calibration");
  command.add_flag("--strongly-typed", strongly_typed, "Allow no types but those of the model's own tensors");
  add_layer_precisions_to(
      command, "What layers are computed in: fp32, fp16, bf16, int8 or fp8; * in a name stands for any text");
  add_rules(command, "--layer-output-types", layer_output_types, "What the results of layers are stored in");
  add_verification_to(command, shapes_help);
}

void BuildArguments::add_layer_precisions_to(CLI::App& command, const char* help) {
  add_rules(command, "--layer-precisions", layer_precisions, help);
  command
      .add_option(
          "--precision-constraints", precision_constraints,
          "What becomes of these: none (ignored), prefer (default: a warning where they cannot be had), or obey "
          "(an error)")
      ->type_name("MODE")
      ->group("Precision of layers");
}

void BuildArguments::add_verification_to(CLI::App& command, const char* shapes_help) {
  command.add_option("--threads", threads, "Threads to build and verify with (default: one for each core)")
      ->type_name("N");
  command
      .add_option("--tolerance", tolerance,
                  fmt::format("Largest error of an output, as a part of its scale (default: 1e-4{})",
                              command.get_option_no_throw("--fp16") == nullptr
                                  ? ""
                                  : "; 0.02 with --fp16 or --tf32, 0.1 with --bf16, where the device gains from it"))
      ->type_name("X")
      ->group("Verification");
  command.add_option("--seed", seed, "Of the inputs used for verification (default: 0)")
      ->type_name("N")
      ->group("Verification");
  command
      .add_option("--verify-seconds", verify_seconds,
                  "Verify on further seeds and sizes as long as they fit into this time (default: 10)")
      ->type_name("SECONDS")
      ->group("Verification");
  limits.add_to(command, "fold constants, measure and verify");
  command
      .add_option("--inputs", inputs,
                  "Inputs to verify on, as numpy.savez writes them, or several such files (default: seeded values)")
      ->type_name("IN.npz")
      ->allow_extra_args(false)
      ->group("Verification");
  command.add_option("--shapes", shapes, shapes_help)
      ->type_name("NAME:SHAPE[,NAME:SHAPE…]")
      ->allow_extra_args(false)
      ->group("Shapes");
}

BuildOptions BuildArguments::options(Progress& progress) const {
  BuildOptions options;
  options.set("device", device).set("fp16", fp16).set("bf16", bf16).set("tf32", tf32).set("int8", int8);
  options.set("fp8", fp8).set("best", best).set("strongly-typed", strongly_typed);
  for (const std::string& rule : layer_precisions) options.set("layer-precisions", rule);
  for (const std::string& rule : layer_output_types) options.set("layer-output-types", rule);
  if (!precision_constraints.empty()) options.set("precision-constraints", precision_constraints);
  if (!calibration.empty()) options.set("calibration", calibration);
  options.set("threads", parse_threads(threads)).set("tuning", "heuristic");
  if (!tolerance.empty()) options.set("tolerance", parse_positive(tolerance, "tolerance", 0));
  options.set("seed", parse_whole(seed, "seed", 0, INT64_MAX, 0));
  if (!verify_seconds.empty()) options.set("verify-seconds", parse_seconds(verify_seconds, "verify-seconds", 0));
  limits.set(options);
  options.set_progress(progress.callback()).set_cancellation(cancel_on_interrupt());
  return options;
}

std::vector<NamedTensors> BuildArguments::read_inputs() const {
  std::vector<NamedTensors> sets;
  for (const std::string& path : inputs) sets.push_back(read_arrays(path));
  return sets;
}

void BuildArguments::set_inputs(BuildOptions& options) const {
  const std::vector<NamedTensors> sets = read_inputs();
  for (size_t i = 0; i < sets.size(); ++i)
    if (i == 0)
      options.set_inputs(sets[i]);
    else
      options.add_inputs(sets[i]);
}

}  // namespace camshaft::tools
