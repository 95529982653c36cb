#include "plugin/c_run.h"

#include <exception>

#include "base/error.h"
#include "base/foreign_call.h"
#include "base/thread_pool.h"

namespace camshaft::plugin {

RunView::RunView(const PluginCall& call) : call_(call) {
  c_.view = this;
  camshaft_plugin_run& c = c_.run;
  c.size = sizeof c;
  const size_t count = call.inputs.size() + call.outputs.size();
  camshaft_plugin_tensor* tensors = some_.data();
  const camshaft_plugin_tensor** pointers = some_pointers_.data();
  if (count > most_inline) {
    many_.resize(count);
    many_pointers_.resize(count);
    tensors = many_.data();
    pointers = many_pointers_.data();
  }
  size_t next = 0;
  for (const auto& operands : {call.inputs, call.outputs})
    for (const PluginOperand& operand : operands) {
      tensors[next] = {static_cast<camshaft_dtype>(operand.dtype), operand.dims.size(), operand.dims.data(),
                       operand.data, operand.present ? byte_size(operand.dtype, element_count(operand.dims)) : 0};
      pointers[next] = operand.present ? &tensors[next] : nullptr;
      ++next;
    }
  c.inputs = pointers;
  c.input_count = call.inputs.size();
  c.outputs = pointers + call.inputs.size();
  c.output_count = call.outputs.size();
  c.workspace = call.workspace;
  c.tactic = call.tactic;
  c.threads = call.pool ? call.pool->size() : 1;
  c.fail = [](const camshaft_plugin_run* self, const char* message) -> int32_t {
    of(self).note(message);
    return 1;
  };
  c.is_cancelled = [](const camshaft_plugin_run* self) -> int32_t {
    const Cancellation* cancellation = of(self).call_.cancellation;
    return cancellation && cancellation->cancelled() ? 1 : 0;
  };
  c.parallel_for = [](const camshaft_plugin_run* self, int64_t elements, int64_t grain, camshaft_plugin_body body,
                      void* user) { of(self).parallel_for(elements, grain, body, user); };
  c.resize_output = [](const camshaft_plugin_run* self, size_t output, size_t rank, const int64_t* dims) -> void* {
    return of(self).resize(output, rank, dims);
  };
  if (!call.device) return;
  c.cuda = &cuda_;
  cuda_.size = sizeof cuda_;
  cuda_.stream = call.device->stream;
  cuda_.capability = call.device->capability;
  cuda_.multiprocessors = call.device->multiprocessors;
  cuda_.launch = [](const camshaft_plugin_run* self, const char* kernel, const uint32_t blocks[3],
                    const uint32_t threads[3], uint32_t shared_bytes, void* const* arguments) -> int32_t {
    RunView& view = of(self);
    try {
      const PluginDevice& device = *view.call_.device;
      if (!device.launch || !kernel) throw Error(ErrorCode::invalid_argument, "there is nothing to launch");
      device.launch(kernel, {{blocks[0], blocks[1], blocks[2]}, {threads[0], threads[1], threads[2]}, shared_bytes},
                    arguments);
      return 0;
    } catch (const std::exception& e) {
      view.note(e.what());
      return 1;
    }
  };
}

void RunView::note(const char* message) {
  const std::lock_guard lock(mutex_);
  if (message_.empty()) message_ = message && *message ? message : "it failed";
}

void RunView::parallel_for(int64_t count, int64_t grain, camshaft_plugin_body body, void* user) {
  if (!body || count <= 0) return;
  const auto part = [&](int64_t begin, int64_t end) {
    try {
      foreign_call([&] {
        body(user, begin, end);
        return 0;
      });
    } catch (const ForeignException& e) {
      note(e.message.empty() ? "a part of its loop threw something" : e.message.c_str());
    }
  };
  if (!call_.pool) return part(0, count);
  call_.pool->parallel_for(count, grain, part);
}

void* RunView::resize(size_t output, size_t rank, const int64_t* dims) {
  try {
    if (call_.resize && rank <= 64 && (rank == 0 || dims)) return call_.resize(output, Dims(dims, dims + rank));
  } catch (const std::exception& e) {
    note(e.what());
  }
  return nullptr;
}

}  // namespace camshaft::plugin
