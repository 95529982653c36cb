// Builds, saves, loads and runs the models that tests/differential/differential.py sends, in one long-lived process.
//
// Reads one job a line from stdin, fields separated by tabs, and answers each with one line on stdout:
//
//   run MODEL VERIFY INPUTS OUTPUTS [INPUTS OUTPUTS]...   VERIFY: 0 or 1, whether the build verifies itself
//   spread MODEL INPUTS OUTPUTS                           how far rounding alone moves each element
//
// INPUTS and OUTPUTS are .npz files. After 'run', OUTPUTS has "engine:NAME" (of the engine, saved and loaded again) and
// "reference:NAME" (of the plain evaluation) for every output; after 'spread', NAME: the largest change of each element
// over several evaluations with noise, as f64. Answers: "ok", or "error<tab>STAGE<tab>CODE<tab>MESSAGE".
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <sstream>

#include "base/thread_pool.h"
#include "builder/verification.h"
#include "camshaft/builder.h"
#include "camshaft/error.h"
#include "onnx/importer.h"
#include "reference/evaluate.h"
#include "tools/npy.h"
#include "tools/npz.h"

namespace camshaft {
namespace {

constexpr int noise_runs = 6;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
  return fields;
}

std::vector<Tensor> read_inputs(const Graph& graph, const std::string& path) {
  const NamedTensors arrays = read_npz(path);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    const auto it = std::find_if(arrays.begin(), arrays.end(), [&](const auto& a) { return a.first == value.name; });
    if (it == arrays.end())
      throw Error(ErrorCode::invalid_argument, fmt::format("'{}' has no input '{}'", path, value.name));
    inputs.push_back(from_numpy(it->second, value.type.dtype, value.name));
  }
  return inputs;
}

// The larger of `spread` and the distance of two results, element by element.
void widen(Tensor& spread, const Tensor& a, const Tensor& b) {
  double* s = spread.as_mutable<double>();
  if (a.dtype() == DType::string || a.dims() != b.dims()) {
    if (!(a == b)) std::fill(s, s + spread.size(), std::numeric_limits<double>::infinity());
    return;
  }
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    const double difference = std::abs(x[i] - y[i]);
    s[i] = std::max(s[i], std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
  }
}

class Server {
 public:
  ~Server() { std::filesystem::remove(engine_file_); }

  std::string answer(const std::string& line) {
    try {
      stage_ = "job";
      const std::vector<std::string> fields = fields_of(line);
      if (fields.size() >= 5 && fields[0] == "run") {
        run(fields);
      } else if (fields.size() == 4 && fields[0] == "spread") {
        spread(fields);
      } else {
        throw Error(ErrorCode::invalid_argument, "no such job");
      }
      return "ok";
    } catch (const Error& e) {
      return failure(to_string(e.code()), e.what());
    } catch (const std::exception& e) {
      return failure("exception", e.what());
    }
  }

 private:
  void run(const std::vector<std::string>& fields) {
    stage_ = "import";
    const Graph model = onnx::import_model(std::filesystem::path(fields[1])).graph;
    stage_ = "build";
    BuildOptions options;
    options.threads = 1;
    options.verify = fields[2] == "1";
    const Engine built = Builder(options).build(fields[1]);
    stage_ = "save";
    built.save(engine_file_);
    stage_ = "load";
    const Engine engine = Engine::load(engine_file_);
    for (size_t f = 3; f + 1 < fields.size(); f += 2) {
      const std::vector<Tensor> inputs = read_inputs(model, fields[f]);
      stage_ = "run";
      const std::vector<Tensor> fast = run_once(engine, inputs, 1);
      stage_ = "reference";
      const std::vector<Tensor> plain = evaluate(model, inputs, pool_);
      NamedTensors results;
      for (size_t i = 0; i < model.output_names.size(); ++i) {
        results.emplace_back("engine:" + model.output_names[i], to_numpy(fast.at(i)));
        results.emplace_back("reference:" + model.output_names[i], to_numpy(plain.at(i)));
      }
      write_npz(fields[f + 1], results);
    }
  }

  void spread(const std::vector<std::string>& fields) {
    stage_ = "reference";
    const Graph model = onnx::import_model(std::filesystem::path(fields[1])).graph;
    const std::vector<Tensor> inputs = read_inputs(model, fields[2]);
    const std::vector<Tensor> clean = evaluate(model, inputs, pool_);
    NamedTensors results;
    for (size_t i = 0; i < clean.size(); ++i)
      results.emplace_back(model.output_names[i], Tensor(DType::f64, clean[i].dims()));
    for (int seed = 0; seed < noise_runs; ++seed) {
      EvaluateOptions noisy;
      noisy.noise.of_results = 0x1p-22;
      noisy.noise_seed = static_cast<uint64_t>(seed);
      const std::vector<Tensor> moved = evaluate(model, inputs, pool_, noisy);
      for (size_t i = 0; i < clean.size(); ++i) widen(results[i].second, clean[i], moved[i]);
    }
    write_npz(fields[3], results);
  }

  std::string failure(const std::string& code, std::string message) const {
    for (char& c : message)
      if (c == '\n' || c == '\t') c = ' ';
    return fmt::format("error\t{}\t{}\t{}", stage_, code, message);
  }

  ThreadPool pool_{1};
  std::string stage_;
  const std::string engine_file_ =
      (std::filesystem::temp_directory_path() / fmt::format("differential-{}.engine", getpid())).string();
};

}  // namespace
}  // namespace camshaft

int main() {
  camshaft::Server server;
  for (std::string line; std::getline(std::cin, line);) std::cout << server.answer(line) << std::endl;
  return 0;
}
