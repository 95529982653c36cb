#include "tools/verify_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/atomic_file.h"
#include "base/thread_pool.h"
#include "builder/reduce_model.h"
#include "builder/verification.h"
#include "builder/verification_sample.h"
#include "onnx/importer.h"
#include "onnx/proto_reader.h"
#include "onnx/proto_writer.h"
#include "onnx/tensor_data.h"
#include "runtime/tensor_view.h"
#include "tools/npz.h"
#include "tools/temporary_folder.h"

namespace camshaft {

namespace {

NamedTensors named(const std::map<std::string, Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

void write_file(const std::string& path, const std::string& bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

/// Brings tensors in files of their own into the model, so that parts of it can be written elsewhere.
void embed_external(onnx::ModelProto& model) {
  onnx::TensorReader reader(model);
  std::vector<std::shared_ptr<const void>> owners{model.storage};
  for (onnx::TensorProto& tensor : model.graph.initializers) {
    if (!tensor.external) continue;
    const onnx::TensorData data = reader.read(tensor);
    owners.push_back(data.owner);
    tensor.raw_data = data.bytes;
    tensor.external.reset();
  }
  model.storage = std::make_shared<std::vector<std::shared_ptr<const void>>>(std::move(owners));
}

/// The model on the inputs that verification takes.
ModelOnInputs with_inputs(const std::string& path, const BuildOptions& options, ThreadPool& pool) {
  ModelOnInputs whole{onnx::read_model(path), {}};
  embed_external(whole.model);
  const Graph graph = onnx::import_model(whole.model).graph;
  SampleOptions wanted;
  wanted.seed = options.seed;
  wanted.cancellation = options.cancellation;
  for (const auto& [name, view] : options.verification_inputs) wanted.inputs[name] = copy_of(view);
  if (!options.profiles.empty())
    for (const auto& [name, range] : options.profiles[0].inputs) wanted.shapes[name] = range.opt;
  const auto sample = find_sample(graph, wanted, pool);
  if (const auto* refusal = std::get_if<std::string>(&sample))
    throw Error(ErrorCode::invalid_argument, fmt::format("'{}' cannot run on made-up inputs: {}", path, *refusal));
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    whole.inputs[graph.value(graph.inputs[i]).name] = std::get<VerificationSample>(sample).inputs[i];
  return whole;
}

/// Parts of a model through the builder, which reads files.
class PartJudge {
 public:
  PartJudge(Judge who, BuildOptions options) : who_(who), options_(std::move(options)) {
    options_.progress = nullptr;
    options_.profiles.clear();
  }

  bool goes_wrong(const ModelOnInputs& part) const {
    const std::string file = folder_.path() + "/part.onnx";
    write_file(file, onnx::model_bytes(part.model));
    BuildOptions options = options_;
    const NamedTensors inputs = named(part.inputs);
    options.verification_inputs = views(inputs);
    try {
      return !judge(file, who_, std::move(options)).passed();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled || error.code() == ErrorCode::io) throw;
      return error.code() == ErrorCode::internal;
    }
  }

 private:
  Judge who_;
  BuildOptions options_;
  TemporaryFolder folder_;
};

}  // namespace

std::string bisect_passes(const std::string& model, Judge who, const BuildOptions& options) {
  const auto judged_after = [&](int count) {
    BuildOptions limited = options;
    limited.stop_after_pass = count;
    limited.progress = nullptr;
    return judge(model, who, std::move(limited));
  };
  if (options.progress) options.progress("building with all passes", 0);
  const Verdict whole = judged_after(-1);
  if (whole.passed()) return "the results do not differ: there is nothing to bisect";
  const std::vector<std::string>& passes = whole.passes;
  const auto passed_after = [&](size_t count) {
    if (options.progress) options.progress(fmt::format("building with {} of {} passes", count, passes.size()), 0);
    return judged_after(static_cast<int>(count)).passed();
  };
  if (!passed_after(0)) return "the results differ without any optimiser pass: an operator or a kernel is to blame";
  size_t good = 0, bad = passes.size();
  while (bad - good > 1) {
    const size_t middle = (good + bad) / 2;
    (passed_after(middle) ? good : bad) = middle;
  }
  return fmt::format("the results differ from pass {} on, {}, and not with the {} before it (--stop-after-pass {})",
                     bad, passes[bad - 1], bad - 1, bad - 1);
}

std::string reduced_inputs(const std::string& output) {
  return std::filesystem::path(output).replace_extension(".npz").string();
}

Reduction reduce(const std::string& model, Judge who, const BuildOptions& options, const std::string& output) {
  ThreadPool pool(std::max(1, options.threads));
  const ModelOnInputs whole = with_inputs(model, options, pool);
  const PartJudge parts(who, options);
  if (!parts.goes_wrong(whole))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' passes verification: there is nothing to reduce", model));
  size_t smallest = whole.model.graph.nodes.size();
  const ModelOnInputs small = reduce_model(
      whole,
      [&](const ModelOnInputs& part) {
        options.cancellation.check("reducing");
        const bool wrong = parts.goes_wrong(part);
        if (wrong) smallest = std::min(smallest, part.model.graph.nodes.size());
        if (options.progress) options.progress(fmt::format("reducing: {} nodes", smallest), 0);
        return wrong;
      },
      pool);
  Reduction written{small.model.graph.nodes.size(), whole.model.graph.nodes.size(), output, reduced_inputs(output)};
  write_file(written.model, onnx::model_bytes(small.model));
  write_npz(written.inputs, named(small.inputs));
  return written;
}

}  // namespace camshaft
