#include "server/core/engine_instance.h"

#include <cstring>

#include "server/core/batch_inputs.h"
#include "server/core/client_memory.h"
#include "server/core/data_type.h"
#include "server/core/status.h"
#include "server/core/text_tensor.h"

namespace camshaft::server {

namespace {

// Whether kernels may read elements where they lie: at a multiple of their size.
bool is_aligned(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % byte_size(dtype, 1) == 0;
}

const RequestedOutput* requested(const Pending& pending, size_t index) {
  return pending.request.outputs.empty() ? nullptr : &pending.request.outputs[index];
}

size_t index_of_output(const Pending& pending, size_t place) {
  size_t index = 0;
  while (index < pending.outputs.size() && pending.outputs[index] != place) ++index;
  return index;
}

ContextOptions context_options(int threads) {
  ContextOptions options;
  options.set("threads", threads);
  return options;
}

}  // namespace

EngineInstance::EngineInstance(const Engine& engine, int threads, const Signature& signature,
                               std::shared_ptr<BufferPool> pool)
    : signature_(signature),
      device_(engine.device()),
      context_(engine.create_context(context_options(threads))),
      pool_(std::move(pool)),
      input_dims_(signature.input_count(), Dims{-1}),
      staging_(signature.input_count()),
      batch_input_dims_(signature.batch_inputs.size(), Dims{-1}),
      batch_staging_(signature.batch_inputs.size()),
      outputs_(signature.output_count()) {}

bool EngineInstance::gets_ready_for_sizes() const {
  return !device_.is_host();
}

void EngineInstance::run(std::vector<PendingPtr> batch) noexcept {
  Status status;
  try {
    run_together(batch);
    return;
  } catch (...) {
    status = current_exception_status();
  }
  // What the engine finds wrong in the data of one must not fail the others.
  if (batch.size() > 1 && status.code != StatusCode::resource_exhausted) {
    for (PendingPtr& pending : batch) {
      std::vector<PendingPtr> alone;
      alone.push_back(std::move(pending));
      run(std::move(alone));
    }
    return;
  }
  for (const PendingPtr& pending : batch)
    if (!pending->answered())
      pending->fail(status, status.code == StatusCode::cancelled ? FailureReason::cancelled : FailureReason::backend);
}

void EngineInstance::run_together(std::vector<PendingPtr>& batch) {
  Timeline timeline;
  timeline.compute_start = Clock::now();
  const int64_t total = bind_inputs(batch);
  bind_outputs(batch);
  context_.set_cancellation(batch.size() == 1 ? batch.front()->request.cancellation : never_);
  timeline.input_end = Clock::now();
  context_.run();
  timeline.output_start = Clock::now();
  take_outputs(batch, total);
  timeline.compute_end = Clock::now();
  batch.front()->statistics().executed(timeline, static_cast<uint64_t>(total));
  int64_t first = 0;
  for (const PendingPtr& pending : batch) {
    Timeline& own = pending->request.timeline;
    own.compute_start = timeline.compute_start;
    own.input_end = timeline.input_end;
    own.output_start = timeline.output_start;
    own.compute_end = timeline.compute_end;
    answer(*pending, first);
    for (size_t place = 0; place < outputs_.size(); ++place)
      if (signature_.output(place).scattered_by)
        outputs_[place].scattered += element_count(scattered_shape(signature_.output(place), signature_, *pending));
    first += pending->batch;
  }
  for (std::shared_ptr<std::byte>& staged : batch_staging_) staged.reset();
  for (std::shared_ptr<std::byte>& staged : staging_) staged.reset();
  for (Output& output : outputs_) output.data.reset();
}

bool EngineInstance::can_bind(const void* data, Device device, DType dtype) const {
  return is_aligned(data, dtype) && (device.is_host() || device == device_);
}

int64_t EngineInstance::bind_inputs(const std::vector<PendingPtr>& batch) {
  int64_t total = 0;
  for (const PendingPtr& pending : batch) total += pending->batch;
  for (size_t place = 0; place < signature_.input_count(); ++place) bind_input(place, batch, total);
  bind_batch_inputs(batch);
  return total;
}

void EngineInstance::bind_input(size_t place, const std::vector<PendingPtr>& batch, int64_t total) {
  const TensorSpec& spec = signature_.input(place);
  const NamedTensor* first = batch.front()->inputs[place];
  if (first == nullptr)
    throw ServerError(StatusCode::invalid_argument, "input '" + spec.name + "' of model '" + signature_.model +
                                                        "' is not in the request: an engine needs all its inputs");
  Dims dims = first->shape;
  if (spec.ragged) {
    dims = {0};
    for (const PendingPtr& pending : batch) dims.front() += element_count(pending->inputs[place]->shape);
  } else if (signature_.max_batch > 0) {
    dims.erase(dims.begin());
    dims = model_shape(spec, dims);
    dims.insert(dims.begin(), total);
  } else {
    dims = model_shape(spec, dims);
  }
  if (spec.dtype == DType::string) return bind_texts(spec, dims, batch, place);
  if (dims != input_dims_[place]) {
    shapes_changed_ = true;
    input_dims_[place] = Dims{-1};
    context_.set_input_shape(spec.name, dims);
    input_dims_[place] = dims;
  }
  const size_t bytes = byte_size(spec.dtype, element_count(dims));
  if (batch.size() == 1 && bytes > 0 && can_bind(first->data.span.data(), first->data.device, spec.dtype)) {
    context_.bind_input(spec.name, first->data.span.data(), bytes, first->data.device);
    return;
  }
  staging_[place] = pool_->take(bytes);
  std::byte* to = staging_[place].get();
  for (const PendingPtr& pending : batch) {
    const Bytes& from = pending->inputs[place]->data;
    copy_bytes(to, from);
    to += from.span.size();
  }
  context_.bind_input(spec.name, staging_[place].get(), bytes);
}

void EngineInstance::bind_texts(const TensorSpec& spec, const Dims& dims, const std::vector<PendingPtr>& batch,
                                size_t place) {
  Tensor texts(DType::string, dims);
  int64_t next = 0;
  for (const PendingPtr& pending : batch) next = read_texts(pending->inputs[place]->data.span, texts, next);
  context_.set_input(spec.name, texts);  // which copies them
  shapes_changed_ |= dims != input_dims_[place];
  input_dims_[place] = dims;
}

void EngineInstance::bind_batch_inputs(const std::vector<PendingPtr>& batch) {
  for (size_t i = 0; i < signature_.batch_inputs.size(); ++i) {
    const BatchInputSpec& spec = signature_.batch_inputs[i];
    const BatchTensor tensor = make_batch_input(spec, signature_, batch);
    const size_t bytes = byte_size(spec.dtype, static_cast<int64_t>(tensor.values.size()));
    batch_staging_[i] = pool_->take(bytes);
    write_batch_input(tensor, spec.dtype, batch_staging_[i].get());
    const bool changed = tensor.dims != batch_input_dims_[i];
    batch_input_dims_[i] = Dims{-1};
    for (const std::string& target : spec.targets) {
      if (changed) context_.set_input_shape(target, tensor.dims);
      context_.bind_input(target, batch_staging_[i].get(), bytes);
    }
    batch_input_dims_[i] = tensor.dims;
    shapes_changed_ |= changed;
  }
}

void EngineInstance::bind_outputs(const std::vector<PendingPtr>& batch) {
  for (size_t place = 0; place < outputs_.size(); ++place) {
    const TensorSpec& spec = signature_.output(place);
    Output& output = outputs_[place];
    output.in_target = false;
    if (spec.dtype == DType::string) continue;
    if (shapes_changed_) {
      try {
        output.dims = context_.output_shape(spec.name);
        output.known = true;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument) throw;
        output.known = false;  // it depends on the data
        context_.bind_output(spec.name, nullptr, 0);
      }
    }
    if (!output.known) continue;
    const size_t bytes = byte_size(spec.dtype, element_count(output.dims));
    std::byte* to = nullptr;
    Device device;
    const size_t index = batch.size() == 1 ? index_of_output(*batch.front(), place) : batch.front()->outputs.size();
    if (batch.size() == 1 && index < batch.front()->outputs.size()) {
      const RequestedOutput* wanted = requested(*batch.front(), index);
      if (wanted != nullptr && wanted->target && wanted->classes == 0) {
        check_target(*wanted, bytes);
        if (bytes > 0 && can_bind(wanted->target->data(), wanted->target_device, spec.dtype)) {
          to = wanted->target->data();
          device = wanted->target_device;
          output.in_target = true;
        }
      }
    }
    if (to == nullptr) {
      output.data = pool_->take(bytes);
      to = output.data.get();
    }
    context_.bind_output(spec.name, to, bytes, device);
  }
  shapes_changed_ = false;
}

// What the context kept itself goes into memory that outlives the next run.
void EngineInstance::take_outputs(const std::vector<PendingPtr>& batch, int64_t total) {
  for (size_t place = 0; place < outputs_.size(); ++place) {
    const TensorSpec& spec = signature_.output(place);
    Output& output = outputs_[place];
    if (spec.dtype == DType::string || !output.known) {
      const Tensor result = context_.output(spec.name);
      output.dims = result.dims();
      if (spec.dtype != DType::string) {
        output.data = pool_->take(result.bytes());
        if (result.bytes() > 0) std::memcpy(output.data.get(), result.data(), result.bytes());
      }
    }
    output.scattered = 0;
    if (spec.scattered_by) {
      int64_t wanted = 0;
      for (const PendingPtr& pending : batch) wanted += element_count(scattered_shape(spec, signature_, *pending));
      if (element_count(output.dims) != wanted)
        throw ServerError(StatusCode::internal, "output '" + spec.name + "' of model '" + signature_.model + "' has " +
                                                    std::to_string(element_count(output.dims)) +
                                                    " elements, its requests' shapes of input '" +
                                                    signature_.input(*spec.scattered_by).name + "' ask for " +
                                                    std::to_string(wanted));
      continue;
    }
    if (signature_.max_batch > 0 && (output.dims.empty() || output.dims.front() != total))
      throw ServerError(StatusCode::internal, "output '" + spec.name + "' of model '" + signature_.model +
                                                  "' has the shape " + shape_text(output.dims) + " for a batch of " +
                                                  std::to_string(total) +
                                                  ": set max_batch_size to 0 for a model without an axis of the batch");
  }
}

NamedTensor EngineInstance::slice(size_t place, const Pending& pending, int64_t first) const {
  const TensorSpec& spec = signature_.output(place);
  const Output& output = outputs_[place];
  NamedTensor tensor;
  tensor.name = spec.name;
  tensor.dtype = spec.dtype;
  Dims dims = output.dims;
  int64_t element = element_count(dims), begin = 0, count = element;
  if (spec.scattered_by) {
    dims = scattered_shape(spec, signature_, pending);
    begin = output.scattered;
    count = element_count(dims);
  } else if (signature_.max_batch > 0) {
    dims.erase(dims.begin());
    element = element_count(dims);
    begin = first * element;
    count = pending.batch * element;
    dims = client_shape(spec, dims);
    dims.insert(dims.begin(), pending.batch);
  } else {
    dims = client_shape(spec, dims);
  }
  tensor.shape = std::move(dims);
  if (spec.dtype == DType::string) {
    tensor.data = write_texts(context_.output(spec.name), begin, count);
    return tensor;
  }
  if (output.in_target) return tensor;  // whose span is the target's
  const size_t offset = byte_size(spec.dtype, begin);
  tensor.data = {{output.data.get() + offset, byte_size(spec.dtype, count)}, output.data};
  return tensor;
}

void EngineInstance::answer(Pending& pending, int64_t first) {
  try {
    std::vector<NamedTensor> outputs;
    outputs.reserve(pending.outputs.size());
    for (size_t i = 0; i < pending.outputs.size(); ++i) {
      const size_t place = pending.outputs[i];
      outputs.push_back(slice(place, pending, first));
      NamedTensor& tensor = outputs.back();
      const RequestedOutput* wanted = requested(pending, i);
      if (wanted == nullptr || !wanted->target || wanted->classes > 0) continue;
      if (outputs_[place].in_target) {
        const size_t bytes = byte_size(tensor.dtype, element_count(tensor.shape));
        tensor.data = {wanted->target->first(bytes), wanted->target_owner, wanted->target_device};
      } else {
        place_output(*wanted, tensor);
      }
    }
    for (size_t i = 0; pending.keep && i < signature_.kept.size(); ++i)
      pending.keep(i, slice(signature_.outputs.size() + i, pending, first));
    pending.succeed(std::move(outputs));
  } catch (...) {
    pending.fail(current_exception_status(), FailureReason::backend);
  }
}

}  // namespace camshaft::server
