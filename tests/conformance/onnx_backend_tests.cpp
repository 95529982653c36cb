// The ONNX standard's own test cases, through the whole of Camshaft: build → engine file → load → run.
//
//   onnx_backend_tests FOLDER... [--only TEXT] [--no-verify] [--jobs N] [--report FILE]
//
// Each FOLDER holds cases: folders with a model.onnx and test_data_set_*, or light_*.onnx beside their outputs, as in
// the Python package onnx under backend/test/data. Every case runs in a process of its own, so that a crash is a
// failure of that case. Prints the cases that fail, each with the reason, and a last line "N of M passed". Exits with 0
// when all cases ran, whatever their outcome: what must pass is decided by test_onnx_backend.py.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "base/error.h"
#include "builder/builder.h"
#include "builder/verification.h"
#include "onnx/proto_reader.h"
#include "onnx/value_file.h"

namespace camshaft {
namespace {

namespace fs = std::filesystem;

// Of onnx/backend/test/loader and runner.
constexpr double relative_tolerance = 1e-3, absolute_tolerance = 1e-7;
constexpr unsigned seconds_per_case = 120;

struct Case {
  std::string name;
  fs::path model;
  bool is_light = false;
};

struct DataSet {
  std::vector<Tensor> inputs, outputs;
};

std::vector<Case> find_cases(const fs::path& folder) {
  std::vector<Case> cases;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (fs::exists(entry.path() / "model.onnx")) {
      cases.push_back({name, entry.path() / "model.onnx"});
    } else if (name.starts_with("light_") && entry.path().extension() == ".onnx") {
      cases.push_back({entry.path().stem().string(), entry.path(), true});
    }
  }
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

std::vector<const onnx::ValueInfoProto*> real_inputs(const onnx::GraphProto& graph) {
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const onnx::ValueInfoProto& input : graph.inputs) {
    const bool is_initializer = std::any_of(graph.initializers.begin(), graph.initializers.end(),
                                            [&](const onnx::TensorProto& t) { return t.name == input.name; });
    if (!is_initializer) inputs.push_back(&input);
  }
  return inputs;
}

std::vector<Tensor> read_values(const fs::path& folder, const std::string& kind,
                                const std::vector<const onnx::ValueInfoProto*>& infos) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < infos.size(); ++i) {
    const fs::path file = folder / fmt::format("{}_{}.pb", kind, i);
    if (fs::exists(file)) values.push_back(onnx::read_value(file, infos[i]->type));
  }
  return values;
}

// 0, 1/n, 2/n, …: the data that the outputs beside the light models were made with.
Tensor ramp(const onnx::ValueInfoProto& info) {
  Dims dims;
  for (const onnx::DimensionProto& d : info.type.shape.value()) dims.push_back(d.value.value_or(1));
  Tensor t(DType::f32, dims);
  for (int64_t i = 0; i < t.size(); ++i)
    t.as_mutable<float>()[i] = static_cast<float>(static_cast<double>(i) / static_cast<double>(t.size()));
  return t;
}

std::vector<DataSet> read_data(const Case& c) {
  const onnx::ModelProto model = onnx::read_model(c.model);
  const auto inputs = real_inputs(model.graph);
  std::vector<const onnx::ValueInfoProto*> outputs;
  for (const onnx::ValueInfoProto& output : model.graph.outputs) outputs.push_back(&output);
  if (c.is_light) {
    DataSet data;
    for (const onnx::ValueInfoProto* input : inputs) data.inputs.push_back(ramp(*input));
    data.outputs = read_values(c.model.parent_path(), c.name + "_output", outputs);
    return {data};
  }
  std::vector<DataSet> sets;
  for (const auto& entry : fs::directory_iterator(c.model.parent_path()))
    if (entry.path().filename().string().starts_with("test_data_set_"))
      sets.push_back({read_values(entry.path(), "input", inputs), read_values(entry.path(), "output", outputs)});
  return sets;
}

std::optional<std::string> difference(const Tensor& expected, const Tensor& actual) {
  if (expected.dtype() != actual.dtype())
    return fmt::format("{} instead of {}", to_string(actual.dtype()), to_string(expected.dtype()));
  if (expected.dims() != actual.dims())
    return fmt::format("shape {} instead of {}", to_string(actual.dims()), to_string(expected.dims()));
  if (is_container(expected.dtype())) {
    for (int64_t i = 0; i < expected.size(); ++i) {
      const Tensor &e = expected.element(i), &a = actual.element(i);
      if (e.defined() != a.defined()) return e.defined() ? "an empty optional" : "an optional that is not empty";
      if (!e.defined()) continue;
      if (const auto what = difference(e, a)) return fmt::format("in element {}: {}", i, *what);
    }
    return std::nullopt;
  }
  if (!is_floating(expected.dtype())) {
    if (expected == actual) return std::nullopt;
    if (expected.dtype() == DType::string) return "other strings";
  }
  const std::vector<double> e = expected.to_doubles(), a = actual.to_doubles();
  const bool exact = !is_floating(expected.dtype());
  for (size_t i = 0; i < e.size(); ++i) {
    if (e[i] == a[i] || (std::isnan(e[i]) && std::isnan(a[i]))) continue;
    const bool close = std::isfinite(e[i]) && !exact &&
                       std::abs(e[i] - a[i]) <= absolute_tolerance + relative_tolerance * std::abs(e[i]);
    if (!close) return fmt::format("element {} of {} is {} instead of {}", i, to_string(expected.dims()), a[i], e[i]);
  }
  return std::nullopt;
}

// The reason of the failure, or nothing.
std::optional<std::string> run_case(const Case& c, bool verify, const fs::path& engine_file) {
  try {
    const std::vector<DataSet> sets = read_data(c);
    if (sets.empty()) return "it has no data";
    BuildOptions options;
    if (const char* device = std::getenv("CAMSHAFT_TEST_DEVICE")) {
      options.device = device;
      options.tuning = Tuning::heuristic;  // an emulated device takes seconds for each kernel
    }
    options.threads = 1;
    options.verify = verify;
    // Made-up axes, sizes and indices fit few of these models.
    const onnx::ModelProto model = onnx::read_model(c.model);
    const auto inputs = real_inputs(model.graph);
    if (inputs.size() == sets[0].inputs.size())
      for (size_t i = 0; i < inputs.size(); ++i)
        options.verification_inputs[std::string(inputs[i]->name)] = view_of(sets[0].inputs[i]);
    Builder(options).build(c.model.string()).save(engine_file.string());
    const Engine engine = Engine::load(engine_file.string());
    fs::remove(engine_file);
    for (const DataSet& data : sets) {
      if (data.inputs.size() != engine.inputs().size())
        return fmt::format("{} inputs of data for {} inputs", data.inputs.size(), engine.inputs().size());
      if (data.outputs.empty()) return "no expected outputs";
      const std::vector<Tensor> outputs = run_once(engine, data.inputs, 1);
      for (size_t i = 0; i < data.outputs.size(); ++i)
        if (const auto what = difference(data.outputs[i], outputs.at(i)))
          return fmt::format("output {}: {}", engine.outputs()[i].name, *what);
    }
    return std::nullopt;
  } catch (const std::exception& e) {
    return e.what();
  }
}

struct Child {
  pid_t pid;
  int pipe;
};

Child start(const Case& c, bool verify) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid > 0) {
    close(ends[1]);
    return {pid, ends[0]};
  }
  close(ends[0]);
  alarm(seconds_per_case);
  const fs::path engine = fs::temp_directory_path() / fmt::format("camshaft-{}.engine", getpid());
  std::string reason = run_case(c, verify, engine).value_or("");
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  reason.resize(std::min(reason.size(), size_t{4000}));  // less than a pipe holds
  const bool written = write(ends[1], reason.data(), reason.size()) == static_cast<ssize_t>(reason.size());
  _exit(written ? 0 : 1);
}

// Why the case failed; empty when it passed.
std::string finish(const Child& child, int status) {
  std::string reason(4000, '\0');
  const ssize_t size = read(child.pipe, reason.data(), reason.size());
  close(child.pipe);
  reason.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  if (WIFSIGNALED(status))
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) return fmt::format("exit status {}", WEXITSTATUS(status));
  return reason;
}

std::vector<std::string> run_all(const std::vector<Case>& cases, bool verify, size_t jobs) {
  std::vector<std::string> reasons(cases.size());
  std::map<pid_t, std::pair<size_t, Child>> running;
  size_t next = 0;
  while (next < cases.size() || !running.empty()) {
    while (next < cases.size() && running.size() < jobs) {
      const Child child = start(cases[next], verify);
      running[child.pid] = {next++, child};
    }
    int status = 0;
    const auto done = running.find(wait(&status));
    if (done == running.end()) continue;
    reasons[done->second.first] = finish(done->second.second, status);
    running.erase(done);
  }
  return reasons;
}

int main_checked(int argc, char** argv) {
  CLI::App app("The ONNX standard's test cases: build, save, load, run, compare");
  std::vector<std::string> folders;
  std::string only, report;
  bool no_verify = false;
  size_t jobs = 2;
  app.add_option("FOLDER", folders, "Folders of cases")->required()->check(CLI::ExistingDirectory);
  app.add_option("--only", only, "Run the cases whose name contains this");
  app.add_flag("--no-verify", no_verify, "Build without verification");
  app.add_option("--jobs", jobs, "Cases at a time")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--report", report, "Write 'NAME<tab>REASON' for every case, the reason empty when it passed");
  CLI11_PARSE(app, argc, argv);

  std::vector<Case> cases;
  for (const std::string& folder : folders)
    for (Case& c : find_cases(folder))
      if (c.name.find(only) != std::string::npos) cases.push_back(std::move(c));
  const std::vector<std::string> reasons = run_all(cases, !no_verify, jobs);

  std::ofstream out;
  if (!report.empty()) out.open(report);
  size_t passed = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    out << cases[i].name << '\t' << reasons[i] << '\n';
    passed += reasons[i].empty() ? 1 : 0;
    if (!reasons[i].empty()) fmt::print("{}: {}\n", cases[i].name, reasons[i]);
  }
  fmt::print("{} of {} passed\n", passed, cases.size());
  return 0;
}

}  // namespace
}  // namespace camshaft

int main(int argc, char** argv) {
  try {
    return camshaft::main_checked(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "onnx_backend_tests: {}\n", e.what());
    return 1;
  }
}
