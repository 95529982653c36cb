// How many wrong engines verification rejects: builds engines of models with one thing wrong, and judges each by the
// right model.
//
//   mutation_score MODEL.onnx... [--count N] [--seed N] [--device cuda] [--fp16 | --bf16] [--inputs FOLDER] [--json
//   FILE]
//   mutation_score MODEL.onnx --wrong OTHER.onnx...
//
// With --wrong the mutants are engines of these files, whose inputs and outputs are MODEL's, and may also differ on
// further samples alone. With --tolerances each engine is also judged by others, of which a larger one must accept what
// a smaller one does. Prints a line for each mutant that passes although it changes an output by more than four times
// what rounding does, and at the end how many of such mutants were rejected. Fails when a right engine is rejected, or
// fewer than 99 % of them. campaign.py runs it over all models.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "builder/builder.h"
#include "builder/compile_graph.h"
#include "builder/find_beyond_storage.h"
#include "builder/precision.h"
#include "builder/verdict.h"
#include "builder/verify_engine.h"
#include "mutation/mutations.h"
#include "onnx/importer.h"
#include "onnx/proto_reader.h"
#include "onnx/value_file.h"
#include "optimize/pipeline.h"
#include "reference/evaluate.h"
#include "runtime/backends.h"
#include "runtime/engine_impl.h"

namespace camshaft::mutation {
namespace {

// As many as verification takes: with two, what rounding does to outputs of few numbers comes out too small.
constexpr uint64_t noise_runs = 8;

struct Settings {
  std::vector<std::string> models, wrong;
  BuildOptions build;
  int count = 20, threads = 2;
  uint64_t seed = 0;
  double seconds = 1e9;
  std::string inputs, json;
  bool tolerances = false;
};

struct Score {
  int64_t changed = 0, rejected = 0;  // of those that change an output by more than four times what rounding does
};

struct Scores {
  std::map<std::string, Score> of_kinds;  // by to_string(Kind), or "given"
  std::vector<std::string> wrongly_passed, wrongly_rejected, not_built, of_tolerances;
  bool is_approximate = false;  // the right engine of the latest model
};

class Tester {
 public:
  Tester(const Settings& settings, const std::string& path)
      : settings_(settings),
        path_(path),
        backend_(find_backend(settings.build.device)),
        precision_(choose_precision(settings.build, *backend_)),
        pool_(settings.threads) {
    model_ = imported(path);
    const BuildOptions judged = with_used_precisions(settings.build, precision_);
    verify_.tolerance = judged.effective_tolerance();
    verify_.usual_tolerance = judged.default_tolerance();
    verify_.rounding_noise = precision_.noise();
    verify_.seconds = settings.build.verify_seconds;
    verify_.known = &known_;
    verify_.names_culprit = false;
    if (settings.inputs.empty()) return;
    const onnx::ModelProto model = onnx::read_model(path);
    for (const onnx::ValueInfoProto& input : model.graph.inputs)
      verify_.inputs[input.name] =
          onnx::read_value(std::filesystem::path(settings.inputs) / (input.name + ".pb"), input.type);
  }

  void run(Scores& scores) {
    find_beyond_storage();
    const VerifyResult right = verified(model_);
    if (!right.passed) {
      scores.wrongly_rejected.push_back(fmt::format(
          "{}: the right engine is rejected: {}", name(),
          right.unverified.empty() ? failure_message(right, verify_.tolerance, verify_.excused) : right.unverified));
      fmt::print("{}\n", scores.wrongly_rejected.back());
      return;
    }
    scores.is_approximate = is_approximate_;
    right_ = right.of_samples;
    if (settings_.tolerances) compare_tolerances(model_, "the right engine", scores);
    measure_rounding(right);
    for (const std::string& wrong : settings_.wrong)
      judge(Mutant{imported(wrong), std::filesystem::path(wrong).stem().string()}, "given", scores);
    if (!settings_.wrong.empty()) return;
    Random random(settings_.seed);
    const auto start = std::chrono::steady_clock::now();
    // Not every model has what each kind needs, not every mutant changes the outputs, and none counts twice.
    const int most_draws = 100 * settings_.count, most_tries = 4 * settings_.count;
    std::set<std::string> tried;
    for (int draws = 0, changed = 0; draws < most_draws && changed < settings_.count; ++draws) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (seconds > settings_.seconds || tried.size() >= static_cast<size_t>(most_tries)) break;
      const Kind kind = all_kinds[random.integer(0, std::size(all_kinds) - 1)];
      const auto mutant = mutate(model_, kind, random);
      if (mutant && tried.insert(mutant->what).second)
        changed += judge(*mutant, std::string(to_string(kind)), scores) ? 1 : 0;
    }
  }

 private:
  std::string name() const { return std::filesystem::path(path_).stem().string(); }
  Graph imported(const std::string& path) {
    Graph graph = onnx::import_model(path).graph;
    run_passes(graph, passes().meaning, context());
    return graph;
  }
  BackendPasses passes() const { return backend_->passes(precision_.storage, precision_.rounding); }
  PassContext context() {
    PassContext made{.pool = pool_};
    made.storage = precision_.storage;
    made.rounding = precision_.rounding;
    return made;
  }

  SampleOptions sample_options() const {
    SampleOptions options;
    options.inputs = verify_.inputs;
    return options;
  }

  void find_beyond_storage() {
    if (precision_.storage == DType::f32) return;
    Graph graph = model_;
    run_passes_with_branches(graph, passes().form, context());
    beyond_storage_ = camshaft::find_beyond_storage(model_, graph, precision_.storage, sample_options(), pool_);
  }

  // As a build does: where approximate tactics leave no margin, the engine is made without.
  VerifyResult verified(Graph graph) {
    run_passes_with_branches(graph, passes().form, context());
    PassContext precise = context();
    precise.keep_f32 = &beyond_storage_;
    run_passes(graph, passes().precision, precise);
    for (CompileOptions options;; options.most_deviation = Deviation::specials) {
      const Engine engine = compile_graph(graph, backend_, options);
      const std::vector<PlanStep>& steps = engine.impl()->plan.steps;
      is_approximate_ = std::any_of(steps.begin(), steps.end(),
                                    [](const PlanStep& step) { return step.deviation >= Deviation::rounding; });
      verify_.sensitivity_above = verify_.tolerance * (is_approximate_ ? approximate_share : 1);
      VerifyResult result = verify_engine(model_, engine, verify_, pool_);
      if (!is_approximate_ || has_margin(result, verify_.tolerance, verify_.excused)) return result;
    }
  }

  static double size(const OutputError& error) { return error.exact ? error.differing : error.relative(); }

  // Of each output on the first sample: what noise does to the reference, and what rounding did to the right engine.
  void measure_rounding(const VerifyResult& right) {
    const auto found = find_sample(model_, sample_options(), pool_);
    const auto& sample = std::get<VerificationSample>(found);
    for (const OutputError& error : right.of_samples.front().outputs) rounding_.push_back(size(error));
    for (uint64_t run = 0; run < noise_runs; ++run) {
      EvaluateOptions noisy;
      noisy.noise.of_results = verify_.rounding_noise;
      noisy.noise_seed = run;
      const std::vector<OutputError> moved =
          compare_outputs(model_.output_names, sample.expected, evaluate(model_, sample.inputs, pool_, noisy),
                          verify_.tolerance, verify_.rounding_noise);
      for (size_t o = 0; o < moved.size(); ++o) rounding_[o] = std::max(rounding_[o], size(moved[o]));
    }
  }

  // What it changes on a sample by more than four times what rounding does: on the first one with noise, and to the
  // right engine on this one.
  std::string changes(const VerifyResult& result, size_t sample) const {
    std::string text;
    const std::vector<OutputError>& errors = result.of_samples[sample].outputs;
    for (size_t o = 0; o < errors.size(); ++o) {
      const double of_right = sample < right_.size() ? size(right_[sample].outputs[o]) : 0;
      const double rounding = std::max(rounding_[o], of_right);
      if (size(errors[o]) > 4 * rounding)
        text += fmt::format(" '{}' by {:.2g} of its scale where rounding does {:.2g}", errors[o].output,
                            size(errors[o]), rounding);
    }
    return text;
  }

  std::string changes_further(const VerifyResult& result) const {
    for (size_t i = 1; i < result.of_samples.size(); ++i)
      if (const std::string text = changes(result, i); !text.empty())
        return text + fmt::format(" on {}", result.samples[i]);
    return "";
  }

  // A tolerance accepts what a smaller one does.
  void compare_tolerances(Graph graph, const std::string& what, Scores& scores) {
    run_passes_with_branches(graph, passes().form, context());
    PassContext precise = context();
    precise.keep_f32 = &beyond_storage_;
    run_passes(graph, passes().precision, precise);
    const Engine engine = compile_graph(graph, backend_, {});
    std::string accepted_by;
    for (const double part : {1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0}) {
      VerifyOptions options = verify_;
      options.tolerance = options.sensitivity_above = part * verify_.tolerance;
      options.excused = usually_excused * std::min(1.0, part);
      options.seconds = 0;
      const bool passed = verify_engine(model_, engine, options, pool_).passed;
      if (!passed && !accepted_by.empty()) {
        scores.of_tolerances.push_back(fmt::format("{}: {}: a tolerance of {:g} rejects what {} accepts", name(), what,
                                                   options.tolerance, accepted_by));
        fmt::print("{}\n", scores.of_tolerances.back());
        return;
      }
      if (passed && accepted_by.empty()) accepted_by = fmt::format("{:g}", options.tolerance);
    }
  }

  // Whether the mutant counts: whether it changes the first sample, or being given, any.
  bool judge(const Mutant& mutant, const std::string& kind, Scores& scores) {
    try {
      // Further samples take most of the time, and are needed only where the first rejects nothing.
      verify_.seconds = 0;
      const VerifyResult first = verified(mutant.graph);
      std::string what = changes(first, 0);
      if (what.empty() && settings_.wrong.empty()) return false;
      verify_.seconds = settings_.build.verify_seconds;
      bool passed = first.passed;
      if (passed) {
        const VerifyResult all = verified(mutant.graph);
        passed = all.passed;
        if (what.empty()) what = changes_further(all);
      }
      if (!settings_.wrong.empty()) fmt::print("{}: {}{}\n", mutant.what, passed ? "passed" : "rejected", what);
      if (what.empty()) return false;
      if (settings_.tolerances) compare_tolerances(mutant.graph, mutant.what, scores);
      Score& score = scores.of_kinds[kind];
      ++score.changed;
      score.rejected += passed ? 0 : 1;
      if (passed) {
        scores.wrongly_passed.push_back(fmt::format("{}: passes: {}: changes{}", name(), mutant.what, what));
        fmt::print("{}\n", scores.wrongly_passed.back());
      }
      return true;
    } catch (const Error& error) {
      scores.not_built.push_back(fmt::format("{}: {}: {}", name(), mutant.what, error.what()));
      return false;  // no engine: nothing that could be wrong
    }
  }

  const Settings& settings_;
  std::string path_;
  std::shared_ptr<const Backend> backend_;
  Precision precision_;
  VerifyOptions verify_;
  ThreadPool pool_;
  KnownReference known_;
  Graph model_;
  std::set<std::string> beyond_storage_;
  std::vector<SampleVerdict> right_;
  std::vector<double> rounding_;
  bool is_approximate_ = false;  // the latest engine
};

void write_json(const Scores& scores, const std::string& path) {
  nlohmann::json kinds = nlohmann::json::object();
  for (const auto& [kind, score] : scores.of_kinds)
    kinds[kind] = {{"changed", score.changed}, {"rejected", score.rejected}};
  const nlohmann::json all = {{"kinds", kinds},
                              {"approximate", scores.is_approximate},
                              {"passed", scores.wrongly_passed},
                              {"right_engines_rejected", scores.wrongly_rejected},
                              {"not_built", scores.not_built}};
  std::ofstream(path) << all.dump() << "\n";
}

int run(const Settings& settings) {
  Scores scores;
  for (const std::string& model : settings.models) {
    Tester(settings, model).run(scores);
    std::fflush(stdout);
  }
  Score all;
  for (const auto& [kind, score] : scores.of_kinds) {
    fmt::print("{:12} {:5} of {:5} rejected\n", kind, score.rejected, score.changed);
    all.rejected += score.rejected;
    all.changed += score.changed;
  }
  const double percent =
      all.changed == 0 ? 100.0 : 100 * static_cast<double>(all.rejected) / static_cast<double>(all.changed);
  fmt::print("all          {:5} of {:5} rejected ({:.2f} %)\n", all.rejected, all.changed, percent);
  if (!settings.json.empty()) write_json(scores, settings.json);
  return scores.wrongly_rejected.empty() && scores.of_tolerances.empty() && percent >= 99 ? 0 : 1;
}

}  // namespace
}  // namespace camshaft::mutation

int main(int argc, char** argv) {
  camshaft::mutation::Settings settings;
  CLI::App app("How many wrong engines verification rejects");
  app.add_option("MODEL", settings.models, "ONNX files")->required();
  app.add_option("--wrong", settings.wrong, "ONNX files of wrong engines, instead of mutants");
  app.add_option("--count", settings.count, "Mutants of each model that change an output");
  app.add_option("--seed", settings.seed, "Of the mutants");
  app.add_option("--threads", settings.threads, "Of the reference and of engines: 2");
  app.add_flag("--tolerances", settings.tolerances, "Also hold verification to accept what a smaller tolerance does");
  app.add_option("--seconds", settings.seconds, "For the mutants of a model");
  app.add_option("--inputs", settings.inputs, "A folder with all inputs as NAME.pb, where made-up ones do not do");
  app.add_option("--device", settings.build.device, "cpu or cuda");
  app.add_option("--verify-seconds", settings.build.verify_seconds, "For samples beside the first");
  app.add_flag("--fp16", settings.build.fp16, "As in builds");
  app.add_flag("--bf16", settings.build.bf16, "As in builds");
  app.add_option("--json", settings.json, "Also write the figures here");
  CLI11_PARSE(app, argc, argv);
  try {
    return camshaft::mutation::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "mutation_score: {}\n", error.what());
    return 2;
  }
}
