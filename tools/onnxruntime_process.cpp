#include "tools/onnxruntime_process.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "camshaft/error.hpp"
#include "tools/child_process.h"
#include "tools/npy.h"
#include "tools/npz.h"
#include "tools/temporary_folder.h"

namespace camshaft::tools {

namespace {

// Arguments: folder, model, threads, the number of inputs, their names, the number of libraries, these, the names of
// the outputs. Arrays are numbered in the files: names of tensors may be anything. Elements of results that are
// sequences are "0/0", "0/1" and so on, keys and values of maps "0/keys" and "0/values"; Python's numbers do not say
// that they were single floats.
constexpr const char* script = R"(
import sys
try:
    import numpy, onnxruntime
except ImportError as error:
    sys.exit(f"import: {error}")
folder, model, threads, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
inputs, rest = sys.argv[5:5 + count], sys.argv[5 + count:]
libraries, outputs = rest[1:1 + int(rest[0])], rest[1 + int(rest[0]):]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
options.inter_op_num_threads = 1
options.log_severity_level = 3
try:
    for library in libraries:
        options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    with numpy.load(folder + "/in.npz") as arrays:
        feed = {name: arrays[str(index)] for index, name in enumerate(inputs)}
    known = {given.name for given in session.get_inputs()}
    results = session.run(outputs, {name: array for name, array in feed.items() if name in known})
except Exception as error:
    sys.exit("run: " + " ".join(str(error).split()))
arrays = {}
def add(name, value, single):
    if isinstance(value, list):
        for index, element in enumerate(value):
            add(f"{name}/{index}", element, single)
    elif isinstance(value, dict):
        values = numpy.array(list(value.values()))
        add(name + "/keys", numpy.array(list(value)), single)
        add(name + "/values", values.astype(numpy.float32) if single else values, single)
    else:
        array = numpy.asarray(value)
        arrays[name] = array.astype(str) if array.dtype == object else array
types = {given.name: given.type for given in session.get_outputs()}
for index, (name, value) in enumerate(zip(outputs, results)):
    add(str(index), value, '(float)' in types[name])
numpy.savez(folder + "/out.npz", **arrays)
)";

// The inverse of the script's `add`.
Tensor put_together(const std::map<std::string, Tensor>& arrays, const std::string& name) {
  if (const auto plain = arrays.find(name); plain != arrays.end()) return plain->second;
  if (arrays.count(name + "/keys") > 0)
    return Tensor::container(DType::map,
                             {put_together(arrays, name + "/keys"), put_together(arrays, name + "/values")});
  std::vector<Tensor> elements;
  for (;;) {
    const std::string element = fmt::format("{}/{}", name, elements.size());
    const auto next = arrays.lower_bound(element);
    if (next == arrays.end() || (next->first != element && !next->first.starts_with(element + "/"))) break;
    elements.push_back(put_together(arrays, element));
  }
  return Tensor::container(DType::sequence, elements);
}

}  // namespace

std::vector<Tensor> run_onnxruntime(const std::string& model, const NamedTensors& inputs,
                                    const std::vector<std::string>& output_names,
                                    const std::vector<std::string>& custom_ops, int threads,
                                    const Cancellation& cancellation) {
  const char* chosen = std::getenv("CAMSHAFT_PYTHON");
  const std::string python = chosen && *chosen ? chosen : "python3";
  const TemporaryFolder folder;
  NamedTensors numbered;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [name, tensor] = inputs[i];
    if (to_numpy(tensor).dtype() != tensor.dtype())
      throw Error(ErrorCode::unsupported,
                  fmt::format("input '{}' is {}, which NumPy lacks: verify against the reference instead", name,
                              to_string(tensor.dtype())));
    numbered.emplace_back(std::to_string(i), tensor);
  }
  write_npz(folder.path() + "/in.npz", numbered);

  std::vector<std::string> arguments = {
      python, "-c", script, folder.path(), model, std::to_string(threads), std::to_string(inputs.size())};
  for (const auto& [name, tensor] : inputs) arguments.push_back(name);
  arguments.push_back(std::to_string(custom_ops.size()));
  for (const std::string& library : custom_ops) arguments.push_back(std::filesystem::absolute(library).string());
  arguments.insert(arguments.end(), output_names.begin(), output_names.end());
  const std::string log = folder.path() + "/log";
  const int status = run_child(arguments, {log, log}, cancellation, "running ONNX Runtime",
                               "; set CAMSHAFT_PYTHON to a Python interpreter that has onnxruntime");
  if (status != 0) {
    // Our script's message is the last line; what comes before are warnings of other modules.
    const std::string message = last_line(log);
    if (message.rfind("import: ", 0) == 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("'{}' cannot import numpy and onnxruntime ({}); set CAMSHAFT_PYTHON to a Python "
                              "interpreter that has them",
                              python, message.substr(8)));
    throw Error(ErrorCode::unsupported, fmt::format("ONNX Runtime cannot run '{}': {}", model,
                                                    message.rfind("run: ", 0) == 0 ? message.substr(5)
                                                    : message.empty() ? fmt::format("it ended with status {}", status)
                                                                      : message));
  }
  std::map<std::string, Tensor> results;
  for (auto& [name, tensor] : read_arrays(folder.path() + "/out.npz")) results[name] = std::move(tensor);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < output_names.size(); ++i) outputs.push_back(put_together(results, std::to_string(i)));
  return outputs;
}

}  // namespace camshaft::tools
