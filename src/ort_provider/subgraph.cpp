#include "ort_provider/subgraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ir/tensor.h"
#include "ort_provider/gpu_memory.h"
#include "ort_provider/values.h"

namespace camshaft::ort_provider {

namespace {

using ort::slot;

const TensorInfo& find_named(const std::vector<TensorInfo>& infos, const std::string& name, const char* what) {
  const auto it = std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& info) { return info.name == name; });
  if (it == infos.end()) throw Error(ErrorCode::invalid_argument, fmt::format("the engine has no {} '{}'", what, name));
  return *it;
}

/// Of a size that no input's sizes tell: its symbol begins so.
bool is_told_by_running(const TensorInfo& info) {
  return std::any_of(info.dim_names.begin(), info.dim_names.end(),
                     [](const std::string& name) { return name.find('@') != std::string::npos; });
}

}  // namespace

/// A context, and what it was bound to last.
struct Subgraph::Runner {
  explicit Runner(Context made) : context(std::move(made)) {}

  Context context;
  std::vector<std::vector<int64_t>> input_dims;   ///< as they are set
  std::vector<std::vector<int64_t>> output_dims;  ///< for these, of bound outputs
  std::vector<std::vector<std::string>> texts;    ///< of inputs
  std::vector<int64_t> read;
};

Subgraph::Subgraph(const Host& host, Engine engine, const ContextOptions& options, DeviceId memory,
                   const std::vector<std::string>& inputs, const std::vector<std::string>& outputs)
    : host_(host), engine_(std::move(engine)), options_(options), memory_(memory) {
  for (const std::string& name : inputs) inputs_.push_back({name, find_named(engine_.inputs(), name, "input").dtype});
  for (const std::string& name : outputs) {
    const TensorInfo& info = find_named(engine_.outputs(), name, "output");
    outputs_.push_back({name, info.dtype, info.dims.size(), info.dtype != DType::string && !is_told_by_running(info)});
  }
  if (inputs_.size() != engine_.inputs().size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the engine has {} inputs, the node {}", engine_.inputs().size(), inputs_.size()));
}

Subgraph::~Subgraph() = default;

std::unique_ptr<Subgraph::Runner> Subgraph::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto runner = std::move(idle_.back());
      idle_.pop_back();
      return runner;
    }
  }
  auto runner = std::make_unique<Runner>(engine_.create_context(options_));
  runner->input_dims.resize(inputs_.size(), {-1});
  runner->output_dims.resize(outputs_.size());
  runner->texts.resize(inputs_.size());
  return runner;
}

void Subgraph::give_back(std::unique_ptr<Runner> runner) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(runner));
}

void Subgraph::run(OrtKernelContext* kernel) {
  // One whose run throws is not used again: what it is bound to may be half old.
  std::unique_ptr<Runner> runner = take();
  Context& context = runner->context;
  bool has_new_sizes = false;
  const auto place_of = [&](const OrtValue* value) {
    return memory_.is_host() ? DeviceId::host : device_of(host_, value);
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto* value = host_.get<const OrtValue*>(slot("KernelContext_GetInput"), std::as_const(kernel), i);
    if (!value)
      throw Error(ErrorCode::invalid_argument, fmt::format("the input '{}' of a subgraph is missing", inputs_[i].name));
    read_dims(host_, value, runner->read);
    if (runner->read != runner->input_dims[i]) {
      context.set_input_shape(inputs_[i].name, runner->read);
      runner->input_dims[i] = runner->read;
      has_new_sizes = true;
    }
    if (inputs_[i].dtype == DType::string) {
      runner->texts[i] = read_texts(host_, value);
      context.bind_input(inputs_[i].name, runner->texts[i].data(), runner->texts[i].size() * sizeof(std::string));
    } else {
      context.bind_input(inputs_[i].name, host_.get<const void*>(slot("GetTensorData"), value),
                         byte_size(inputs_[i].dtype, element_count(runner->read)), place_of(value));
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].is_bound) continue;
    std::vector<int64_t>& dims = runner->output_dims[i];
    if (has_new_sizes) dims = context.output_shape(outputs_[i].name);
    auto* value =
        host_.get<OrtValue*>(slot("KernelContext_GetOutput"), kernel, i, std::as_const(dims).data(), dims.size());
    context.bind_output(outputs_[i].name, host_.get<void*>(slot("GetTensorMutableData"), value),
                        byte_size(outputs_[i].dtype, element_count(dims)), place_of(value));
  }
  context.run();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].is_bound) continue;
    const TensorView view = context.output(outputs_[i].name);
    auto* value = host_.get<OrtValue*>(slot("KernelContext_GetOutput"), kernel, i, view.dims.data(), view.dims.size());
    if (view.dtype == DType::string) {
      write_texts(host_, value, static_cast<const std::string*>(view.data),
                  static_cast<size_t>(element_count(view.dims)));
    } else if (view.bytes > 0) {
      auto* to = host_.get<void*>(slot("GetTensorMutableData"), value);
      if (const DeviceId place = place_of(value); place.is_gpu()) {
        GpuMemory::of(place.ordinal()).copy(to, place, view.data, DeviceId::host, view.bytes);
      } else {
        std::memcpy(to, view.data, view.bytes);
      }
    }
  }
  give_back(std::move(runner));
}

}  // namespace camshaft::ort_provider
