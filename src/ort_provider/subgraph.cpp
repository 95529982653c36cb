#include "ort_provider/subgraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ir/tensor.h"
#include "ort_provider/gpu_memory.h"
#include "ort_provider/sync_stream.h"
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

Subgraph::Subgraph(const Host& host, Engine engine, const ProviderOptions& options,
                   const std::vector<std::string>& inputs, const std::vector<std::string>& outputs)
    : host_(host),
      engine_(std::move(engine)),
      options_(options.settings.context),
      memory_(options.memory),
      stream_(options.stream),
      runners_(std::make_shared<RunnerPool>()) {
  for (const std::string& name : inputs) inputs_.push_back({name, find_named(engine_.inputs(), name, "input").dtype});
  for (const std::string& name : outputs) {
    const TensorInfo& info = find_named(engine_.outputs(), name, "output");
    outputs_.push_back({name, info.dtype, info.dims.size(), info.dtype != DType::string && !is_told_by_running(info)});
  }
  if (inputs_.size() != engine_.inputs().size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the engine has {} inputs, the node {}", engine_.inputs().size(), inputs_.size()));
}

std::unique_ptr<Runner> Subgraph::take(const WorkStream* stream) {
  std::unique_ptr<Runner> runner = runners_->take(stream);
  if (runner) return runner;
  runner = std::make_unique<Runner>(engine_.create_context(options_));
  runner->input_dims.resize(inputs_.size(), {-1});
  runner->output_dims.resize(outputs_.size());
  runner->texts.resize(inputs_.size());
  return runner;
}

std::shared_ptr<WorkStream> Subgraph::stream_for(const OrtKernelContext* kernel) const {
  if (!engine_.device().is_gpu()) return nullptr;
  const cuda::Device& device = GpuMemory::of(engine_.device().ordinal()).device();
  if (memory_.is_host()) return stream_ ? WorkStream::of(device, *stream_) : nullptr;
  return stream_of(host_, kernel, device, stream_ && !*stream_);
}

DeviceId Subgraph::place_of(const OrtValue* value) const {
  return memory_.is_host() ? DeviceId::host : device_of(host_, value);
}

void Subgraph::bind_inputs(Runner& runner, const OrtKernelContext* kernel) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto* value = host_.get<const OrtValue*>(slot("KernelContext_GetInput"), kernel, i);
    if (!value)
      throw Error(ErrorCode::invalid_argument, fmt::format("the input '{}' of a subgraph is missing", inputs_[i].name));
    read_dims(host_, value, runner.read);
    if (runner.read != runner.input_dims[i]) {
      runner.context.set_input_shape(inputs_[i].name, runner.read);
      runner.input_dims[i] = runner.read;
      runner.has_new_sizes = true;
    }
    if (inputs_[i].dtype == DType::string) {
      runner.texts[i] = read_texts(host_, value);
      runner.context.bind_input(inputs_[i].name, runner.texts[i].data(), runner.texts[i].size() * sizeof(std::string));
      continue;
    }
    const auto* data = host_.get<const void*>(slot("GetTensorData"), value);
    const DeviceId place = place_of(value);
    runner.context.bind_input(inputs_[i].name, data, byte_size(inputs_[i].dtype, element_count(runner.read)), place);
    if (place.is_gpu()) runner.on_gpu.push_back(data);
  }
}

void Subgraph::bind_outputs(Runner& runner, OrtKernelContext* kernel) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].is_bound) {
      runner.has_results_on_host = true;
      continue;
    }
    std::vector<int64_t>& dims = runner.output_dims[i];
    if (runner.has_new_sizes) dims = runner.context.output_shape(outputs_[i].name);
    auto* value =
        host_.get<OrtValue*>(slot("KernelContext_GetOutput"), kernel, i, std::as_const(dims).data(), dims.size());
    auto* data = host_.get<void*>(slot("GetTensorMutableData"), value);
    const DeviceId place = place_of(value);
    runner.context.bind_output(outputs_[i].name, data, byte_size(outputs_[i].dtype, element_count(dims)), place);
    if (place.is_gpu()) {
      runner.on_gpu.push_back(data);
    } else {
      runner.has_results_on_host = true;
    }
  }
}

void Subgraph::enqueue(Runner& runner, const std::shared_ptr<WorkStream>& stream) {
  GpuMemory& memory = GpuMemory::of(engine_.device().ordinal());
  for (const void* data : runner.on_gpu) memory.before_use(data, stream->stream(), stream.get());
  runner.context.enqueue(stream->handle());
  const uint64_t number = stream->submitted();
  for (const void* data : runner.on_gpu) memory.after_use(data, stream, number);
}

void Subgraph::give_results(const Runner& runner, OrtKernelContext* kernel) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].is_bound) continue;
    const TensorView view = runner.context.output(outputs_[i].name);
    auto* value = host_.get<OrtValue*>(slot("KernelContext_GetOutput"), kernel, i, view.dims.data(), view.dims.size());
    if (view.dtype == DType::string) {
      write_texts(host_, value, static_cast<const std::string*>(view.data),
                  static_cast<size_t>(element_count(view.dims)));
    } else if (view.bytes > 0) {
      auto* to = host_.get<void*>(slot("GetTensorMutableData"), value);
      if (const DeviceId place = place_of(value); place.is_gpu()) {
        GpuMemory::of(place.ordinal()).copy(to, place, view.data, DeviceId::host, view.bytes, nullptr);
      } else {
        std::memcpy(to, view.data, view.bytes);
      }
    }
  }
}

void Subgraph::run(OrtKernelContext* kernel) {
  std::shared_ptr<WorkStream> stream = stream_for(kernel);
  // One whose run throws is not used again: what it is bound to may be half old.
  std::unique_ptr<Runner> runner = take(stream.get());
  runner->on_gpu.clear();
  runner->has_new_sizes = runner->has_results_on_host = false;
  bind_inputs(*runner, kernel);
  bind_outputs(*runner, kernel);
  if (stream) {
    enqueue(*runner, stream);
  } else {
    for (const void* data : runner->on_gpu) GpuMemory::of(memory_.ordinal()).wait_for_uses(data);
    runner->context.run();
  }
  if (stream && runner->has_results_on_host) {
    runner->context.synchronize();
    stream = nullptr;
  }
  give_results(*runner, kernel);
  runners_->give_back(std::move(runner), std::move(stream));
}

}  // namespace camshaft::ort_provider
