#include "runtime/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/communicator.h"
#include "api/describe.h"
#include "api/engine.h"
#include "api/options.h"
#include "api/record.h"
#include "api/status.h"
#include "api/tensor.h"

using namespace camshaft;
using namespace camshaft::api;

struct camshaft_context {
  Context context;
};

namespace {

Context& of(camshaft_context* context) {
  return given(context, "context")->context;
}

}  // namespace

camshaft_status camshaft_context_create(const camshaft_engine* engine, const camshaft_options* options,
                                        camshaft_context** context) {
  return guarded([&] {
    const Engine& from = given(engine, "engine")->engine;
    give(context, "context", [&] {
      return new camshaft_context{from.create_context(settings_of(options, CAMSHAFT_CONTEXT).settings.context)};
    });
  });
}

void camshaft_context_free(camshaft_context* context) {
  delete context;
}

camshaft_status camshaft_context_set_input_shape(camshaft_context* context, const char* name, size_t rank,
                                                 const int64_t* dims) {
  return guarded([&] { of(context).set_input_shape(given(name, "name"), checked_dims(rank, dims)); });
}

camshaft_status camshaft_context_set_input(camshaft_context* context, const char* name, const camshaft_tensor* tensor) {
  return guarded([&] { of(context).set_input(given(name, "name"), given(tensor, "tensor")->view); });
}

camshaft_status camshaft_context_bind_input(camshaft_context* context, const char* name, const void* data, size_t bytes,
                                            camshaft_device device) {
  return guarded([&] { of(context).bind_input(given(name, "name"), data, bytes, device_id_of(device)); });
}

camshaft_status camshaft_context_bind_output(camshaft_context* context, const char* name, void* data, size_t bytes,
                                             camshaft_device device) {
  return guarded([&] { of(context).bind_output(given(name, "name"), data, bytes, device_id_of(device)); });
}

namespace {

void give_shape(const std::vector<int64_t>& shape, size_t capacity, int64_t* dims, size_t* rank) {
  *given(rank, "rank") = shape.size();
  const size_t written = std::min(capacity, shape.size());
  if (written > 0) std::copy_n(shape.begin(), written, given(dims, "dims"));
}

}  // namespace

camshaft_status camshaft_context_output_shape(camshaft_context* context, const char* name, size_t capacity,
                                              int64_t* dims, size_t* rank) {
  return guarded([&] { give_shape(of(context).output_shape(given(name, "name")), capacity, dims, rank); });
}

camshaft_status camshaft_context_largest_output_shape(camshaft_context* context, const char* name, size_t capacity,
                                                      int64_t* dims, size_t* rank) {
  return guarded([&] { give_shape(of(context).largest_output_shape(given(name, "name")), capacity, dims, rank); });
}

camshaft_status camshaft_context_run(camshaft_context* context) {
  return guarded([&] { of(context).run(); });
}

camshaft_status camshaft_context_enqueue(camshaft_context* context, void* stream) {
  return guarded([&] { of(context).enqueue(stream); });
}

camshaft_status camshaft_context_start(camshaft_context* context) {
  return guarded([&] { of(context).start(); });
}

camshaft_status camshaft_context_synchronize(camshaft_context* context) {
  return guarded([&] { of(context).synchronize(); });
}

camshaft_status camshaft_context_synchronize_previous(camshaft_context* context) {
  return guarded([&] { of(context).synchronize_previous(); });
}

camshaft_status camshaft_context_copy(camshaft_context* context, void* to, camshaft_device to_device, const void* from,
                                      camshaft_device from_device, size_t bytes) {
  return guarded([&] {
    if (bytes > 0) given(to, "to"), given(from, "from");
    of(context).copy(static_cast<std::byte*>(to), device_id_of(to_device), static_cast<const std::byte*>(from),
                     device_id_of(from_device), bytes);
  });
}

camshaft_status camshaft_context_run_async(camshaft_context* context, camshaft_completion_function completion,
                                           void* user) {
  return guarded([&] {
    given(reinterpret_cast<void*>(completion), "completion");
    of(context).run_async([completion, user](const std::exception_ptr& failure) {
      completion(user, failure ? fail(failure) : CAMSHAFT_OK);
    });
  });
}

camshaft_status camshaft_context_set_cancellation(camshaft_context* context,
                                                  const camshaft_cancellation* cancellation) {
  return guarded([&] { of(context).set_cancellation(given(cancellation, "cancellation")->flag); });
}

camshaft_status camshaft_context_set_communicator(camshaft_context* context,
                                                  const camshaft_communicator* communicator) {
  return guarded([&] { of(context).set_communicator(communicator == nullptr ? nullptr : communicator->communicator); });
}

camshaft_status camshaft_context_output(const camshaft_context* context, const char* name, camshaft_tensor** output) {
  return guarded([&] {
    const TensorView view = given(context, "context")->context.output(given(name, "name"));
    give(output, "output", [&] { return new camshaft_tensor(handle_of(view)); });
  });
}

camshaft_status camshaft_context_set_tap(camshaft_context* context, const char* tensor, camshaft_tap_function tap,
                                         void* user) {
  return guarded([&] {
    const std::string name = given(tensor, "tensor");
    if (tap == nullptr) {
      of(context).set_tap(name, {});
      return;
    }
    of(context).set_tap(name, [tap, user, name](const TensorView& view) {
      const camshaft_tensor handle = handle_of(view);
      if (tap(user, &handle) != 0) throw Error(ErrorCode::cancelled, "cancelled by the tap of tensor '" + name + "'");
    });
  });
}

size_t camshaft_context_memory_bytes(const camshaft_context* context) {
  return context->context.memory_bytes();
}

camshaft_status camshaft_profiler_create(camshaft_profiler** profiler) {
  return guarded([&] { give(profiler, "profiler", [&] { return new camshaft_profiler(); }); });
}

void camshaft_profiler_reset(camshaft_profiler* profiler) {
  profiler->profiler.reset();
}

camshaft_status camshaft_profiler_layers(const camshaft_profiler* profiler, camshaft_record** layers) {
  return guarded([&] {
    give(layers, "layers", [&] { return new_record(describe_all(given(profiler, "profiler")->profiler.layers())); });
  });
}

camshaft_status camshaft_profiler_keep_runs(camshaft_profiler* profiler, int64_t most) {
  return guarded([&] {
    if (most < 0)
      throw Error(ErrorCode::invalid_argument, fmt::format("{} runs to keep; give how many, or 0 for none", most));
    given(profiler, "profiler")->profiler.keep_runs(static_cast<size_t>(most));
  });
}

camshaft_status camshaft_profiler_runs(const camshaft_profiler* profiler, camshaft_record** runs) {
  return guarded([&] {
    give(runs, "runs", [&] { return new_record(describe_all(given(profiler, "profiler")->profiler.runs())); });
  });
}

void camshaft_profiler_free(camshaft_profiler* profiler) {
  delete profiler;
}

camshaft_status camshaft_context_set_profiler(camshaft_context* context, camshaft_profiler* profiler) {
  return guarded([&] { of(context).set_profiler(profiler == nullptr ? nullptr : &profiler->profiler); });
}
