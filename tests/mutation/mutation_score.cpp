// How many wrong engines verification rejects: builds engines of models with one thing wrong, and judges each by the
// right model.
//
//   mutation_score MODEL.onnx... [--count N] [--seed N] [--device cuda] [--fp16 | --bf16] [--verify-seconds S]
//
// Prints a line for each mutant that passes although it changes an output by more than four times what rounding does,
// and at the end how many of such mutants were rejected: all of them, and those that change an output by more than the
// tolerance, too. Fails when a right engine is rejected, or fewer than 99 % of the latter.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <map>

#include "builder/compile_graph.h"
#include "builder/verify_engine.h"
#include "mutation/mutations.h"
#include "onnx/importer.h"
#include "optimize/pipeline.h"
#include "reference/evaluate.h"
#include "runtime/backends.h"

namespace camshaft::mutation {
namespace {

struct Settings {
  std::vector<std::string> models;
  std::string device = "cpu";
  int count = 20;
  uint64_t seed = 0;
  double verify_seconds = 10;
  bool fp16 = false, bf16 = false;

  DType storage() const { return fp16 ? DType::f16 : bf16 ? DType::bf16 : DType::f32; }
  VerifyOptions verify() const {
    VerifyOptions options;
    options.tolerance = options.sensitivity_above = bf16 ? 0.1 : fp16 ? 0.02 : 1e-4;
    options.rounding_noise = bf16 ? 0x1p-8 : fp16 ? 0x1p-11 : 0x1p-22;
    options.seconds = verify_seconds;
    return options;
  }
};

struct Score {
  int64_t changed = 0, rejected = 0;                      // by more than four times what rounding does
  int64_t beyond_tolerance = 0, beyond_and_rejected = 0;  // and by more than the tolerance
};

class Tester {
 public:
  Tester(const Settings& settings, const std::string& path)
      : settings_(settings), path_(path), verify_(settings.verify()), backend_(find_backend(settings.device)) {
    model_ = onnx::import_model(path).graph;
    run_passes(model_, passes().meaning, context());
    verify_.known = &known_;
  }

  // Whether the right engine passes.
  bool run(std::map<Kind, Score>& scores) {
    const VerifyResult right = verify_engine(model_, compiled(model_), verify_, pool_);
    if (!right.passed) {
      fmt::print("{}: the right engine is rejected: {} {}\n", path_, right.layers.culprit, right.unverified);
      return false;
    }
    const auto made = find_sample(model_, {}, pool_);
    sample_ = std::get<VerificationSample>(made);
    measure_spread();
    Random random(settings_.seed);
    for (int i = 0; i < settings_.count; ++i) {
      const Kind kind = all_kinds[random.integer(0, std::size(all_kinds) - 1)];
      if (const auto mutant = mutate(model_, kind, random)) judge(*mutant, scores[kind]);
    }
    return true;
  }

 private:
  BackendPasses passes() const { return backend_->passes(settings_.storage(), ops::Rounding::none); }
  PassContext context() { return {.pool = pool_, .storage = settings_.storage()}; }

  Engine compiled(Graph graph) {
    run_passes_with_branches(graph, passes().form, context());
    run_passes(graph, passes().precision, context());
    return compile_graph(std::move(graph), backend_);
  }

  std::vector<OutputError> compared(const std::vector<Tensor>& outputs) const {
    return compare_outputs(model_.output_names, sample_.expected, outputs, verify_.tolerance, verify_.rounding_noise);
  }

  static double size(const OutputError& error) { return error.exact ? error.differing : error.relative(); }

  void measure_spread() {
    spread_.assign(model_.outputs.size(), 0);
    for (uint64_t run = 0; run < 2; ++run) {
      EvaluateOptions noisy;
      noisy.noise.of_results = verify_.rounding_noise;
      noisy.noise_seed = run;
      const std::vector<OutputError> moved = compared(evaluate(model_, sample_.inputs, pool_, noisy));
      for (size_t o = 0; o < moved.size(); ++o) spread_[o] = std::max(spread_[o], size(moved[o]));
    }
  }

  void judge(const Mutant& mutant, Score& score) {
    bool changes = false, beyond = false;
    double most = 0;
    VerifyResult result;
    try {
      const std::vector<OutputError> errors = compared(evaluate(mutant.graph, sample_.inputs, pool_));
      for (size_t o = 0; o < errors.size(); ++o) {
        const double error = size(errors[o]);
        const bool changed = error > 4 * spread_[o];
        changes = changes || changed;
        beyond = beyond || (changed && error > (errors[o].exact ? 0 : verify_.tolerance));
        most = std::max(most, error);
      }
      if (!changes) return;
      result = verify_engine(model_, compiled(mutant.graph), verify_, pool_);
    } catch (const Error&) {
      return;  // no engine: nothing that could be wrong
    }
    ++score.changed;
    score.rejected += result.passed ? 0 : 1;
    score.beyond_tolerance += beyond ? 1 : 0;
    score.beyond_and_rejected += beyond && !result.passed ? 1 : 0;
    if (result.passed)
      fmt::print("{}: passes: {}: changes an output by {:.2g} of its scale{}\n",
                 std::filesystem::path(path_).stem().string(), mutant.what, most,
                 beyond ? ", more than the tolerance" : "");
  }

  const Settings& settings_;
  std::string path_;
  VerifyOptions verify_;
  std::shared_ptr<const Backend> backend_;
  ThreadPool pool_{2};
  KnownSamples known_;
  Graph model_;
  VerificationSample sample_;
  std::vector<double> spread_;
};

int run(const Settings& settings) {
  std::map<Kind, Score> scores;
  bool all_right = true;
  for (const std::string& model : settings.models) {
    all_right = Tester(settings, model).run(scores) && all_right;
    std::fflush(stdout);
  }
  Score all;
  for (const auto& [kind, score] : scores) {
    fmt::print("{:12} {:5} of {:5} rejected; beyond the tolerance {:5} of {:5}\n", to_string(kind), score.rejected,
               score.changed, score.beyond_and_rejected, score.beyond_tolerance);
    all.rejected += score.rejected;
    all.changed += score.changed;
    all.beyond_and_rejected += score.beyond_and_rejected;
    all.beyond_tolerance += score.beyond_tolerance;
  }
  const auto percent = [](int64_t part, int64_t whole) {
    return whole == 0 ? 100.0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  };
  const double score = percent(all.beyond_and_rejected, all.beyond_tolerance);
  fmt::print("all          {:5} of {:5} rejected ({:.2f} %); beyond the tolerance {:5} of {:5} ({:.2f} %)\n",
             all.rejected, all.changed, percent(all.rejected, all.changed), all.beyond_and_rejected,
             all.beyond_tolerance, score);
  return all_right && score >= 99 ? 0 : 1;
}

}  // namespace
}  // namespace camshaft::mutation

int main(int argc, char** argv) {
  camshaft::mutation::Settings settings;
  CLI::App app("How many wrong engines verification rejects");
  app.add_option("MODEL", settings.models, "ONNX files")->required();
  app.add_option("--count", settings.count, "Mutants of each model");
  app.add_option("--seed", settings.seed, "Of the mutants");
  app.add_option("--device", settings.device, "cpu or cuda");
  app.add_option("--verify-seconds", settings.verify_seconds, "For samples beside the first");
  app.add_flag("--fp16", settings.fp16, "Store tensors in fp16");
  app.add_flag("--bf16", settings.bf16, "Store tensors in bf16");
  CLI11_PARSE(app, argc, argv);
  try {
    return camshaft::mutation::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "mutation_score: {}\n", error.what());
    return 2;
  }
}
