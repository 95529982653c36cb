// Builds, saves, loads and runs the models that tests/differential/differential.py sends, in one long-lived process.
//
// Reads one job a line from stdin, fields separated by tabs, and answers each with one line on stdout:
//
//   run MODEL VERIFY THREADS INPUTS OUTPUTS [INPUTS OUTPUTS]...   VERIFY: 0 or 1, whether the build verifies itself
//   spread MODEL INPUTS OUTPUTS                                   how far rounding alone moves each element
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

#include "camshaft/camshaft.hpp"
#include "tools/npy.h"
#include "tools/npz.h"

namespace camshaft::tools {
namespace {

constexpr int noise_runs = 6;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
  return fields;
}

NamedTensors read_inputs(const Engine& engine, const std::string& path) {
  const NamedTensors arrays = read_arrays(path);
  NamedTensors inputs;
  for (const TensorInfo& info : engine.inputs()) {
    const auto it = std::find_if(arrays.begin(), arrays.end(), [&](const auto& a) { return a.first == info.name; });
    if (it == arrays.end())
      throw Error(ErrorCode::invalid_argument, fmt::format("'{}' has no input '{}'", path, info.name));
    inputs.emplace_back(info.name, from_numpy(it->second, info.dtype, info.name));
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
  const Tensor wide_a = a.converted(DType::f64), wide_b = b.converted(DType::f64);
  const auto *x = wide_a.as<double>(), *y = wide_b.as<double>();
  for (int64_t i = 0; i < spread.size(); ++i) {
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
      if (fields.size() >= 6 && fields[0] == "run") {
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
    stage_ = "build";
    const int threads = std::stoi(fields[3]);
    const Engine built = build(fields[1], fields[2] == "1", threads, fields[4]);
    stage_ = "save";
    built.save(engine_file_);
    stage_ = "load";
    const Engine engine = Engine::load(engine_file_);
    for (size_t f = 4; f + 1 < fields.size(); f += 2) {
      const NamedTensors inputs = read_inputs(engine, fields[f]);
      stage_ = "run";
      Context context = engine.create_context(ContextOptions().set("threads", threads));
      for (const auto& [name, tensor] : inputs) context.set_input(name, tensor);
      context.run();
      stage_ = "reference";
      NamedTensors results;
      for (const auto& [name, plain] : evaluate(fields[1], inputs)) {
        results.emplace_back("engine:" + name, to_numpy(context.output(name)));
        results.emplace_back("reference:" + name, to_numpy(plain));
      }
      write_npz(fields[f + 1], results);
    }
  }

  // Verified on made-up inputs, or on those of the job where the model takes no others.
  static Engine build(const std::string& model, bool verify, int threads, const std::string& inputs) {
    BuildOptions options;
    options.set("threads", threads).set("verify", verify);
    try {
      return Builder(options).build(model);
    } catch (const Error& e) {
      if (!verify || e.code() != ErrorCode::invalid_argument) throw;
    }
    options.set("verify", false);
    const NamedTensors given = read_inputs(Builder(options).build(model), inputs);
    return Builder(options.set("verify", true).set_inputs(given)).build(model);
  }

  void spread(const std::vector<std::string>& fields) {
    stage_ = "reference";
    const Engine engine =
        Builder(BuildOptions().set("threads", 1).set("verify", false).set("tuning", "heuristic")).build(fields[1]);
    const NamedTensors inputs = read_inputs(engine, fields[2]);
    const NamedTensors clean = evaluate(fields[1], inputs);
    NamedTensors results;
    for (const auto& [name, tensor] : clean) results.emplace_back(name, Tensor(DType::f64, tensor.dims()));
    for (int seed = 0; seed < noise_runs; ++seed) {
      const NamedTensors moved = evaluate(fields[1], inputs, 1, 0x1p-22, static_cast<uint64_t>(seed));
      for (size_t i = 0; i < clean.size(); ++i) widen(results[i].second, clean[i].second, moved[i].second);
    }
    write_npz(fields[3], results);
  }

  std::string failure(const std::string& code, std::string message) const {
    for (char& c : message)
      if (c == '\n' || c == '\t') c = ' ';
    return fmt::format("error\t{}\t{}\t{}", stage_, code, message);
  }

  std::string stage_;
  const std::string engine_file_ =
      (std::filesystem::temp_directory_path() / fmt::format("differential-{}.engine", getpid())).string();
};

}  // namespace
}  // namespace camshaft::tools

int main() {
  camshaft::tools::Server server;
  for (std::string line; std::getline(std::cin, line);) std::cout << server.answer(line) << std::endl;
  return 0;
}
