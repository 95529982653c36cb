// Running an engine.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/cancellation.hpp"
#include "camshaft/communicator.hpp"
#include "camshaft/error.hpp"
#include "camshaft/options.hpp"
#include "camshaft/profiler.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft {
inline namespace v1 {

/// Memory and threads for one run at a time. Contexts of one engine are independent: use one a thread. Not copyable.
///
///   Context context = engine.create_context();
///   context.set_input("x", {1, 3, 224, 224}, pixels);
///   context.run();
///   Tensor y = context.output("y");
///
/// On a GPU, in the caller's stream and memory:
///
///   context.set_input("x", {1, 3, 224, 224}, pixels_on_gpu, {Device::cuda});
///   context.bind_output("y", scores_on_gpu, bytes, {Device::cuda});
///   context.enqueue(stream);  // a cudaStream_t; returns at once
class Context {
 public:
  /// Takes over what a call of the C interface gave. `engine`: of the inputs' dtypes.
  Context(camshaft_context* taken, std::map<std::string, DType> inputs) : inputs_(std::move(inputs)), handle_(taken) {}
  Context(Context&&) noexcept = default;
  /// Waits for the asynchronous run of the context that was here, with its taps, before both are freed.
  Context& operator=(Context other) noexcept {
    inputs_.swap(other.inputs_);
    taps_.swap(other.taps_);
    handle_.swap(other.handle_);
    return *this;
  }
  ~Context() = default;

  /// Sets the shape of an input. Needed once for inputs with dynamic sizes, and again whenever they change. Throws
  /// Error(invalid_argument) for an unknown name, a wrong rank, a fixed size that differs, or a shape outside every
  /// profile.
  void set_input_shape(const std::string& name, const Dims& dims) {
    detail::check(camshaft_context_set_input_shape(handle_.get(), name.c_str(), dims.size(), dims.data()));
  }
  /// Binds the caller's memory as an input, without a copy: row-major elements of the input's dtype, `bytes` bytes of
  /// them, which stay valid and unchanged during run(), or until the work of enqueue() is done. `device`: the host's,
  /// or the GPU's that the engine was built for. Throws Error(invalid_argument) for memory that is not there, and for
  /// such of a GPU that is not aligned to the dtype's size.
  void bind_input(const std::string& name, const void* data, size_t bytes, Device device = {}) {
    detail::check(camshaft_context_bind_input(handle_.get(), name.c_str(), data, bytes, {device.type, device.ordinal}));
  }
  /// Both at once; `data` holds the product of `dims` elements.
  void set_input(const std::string& name, const Dims& dims, const void* data, Device device = {}) {
    set_input_shape(name, dims);
    const auto dtype = inputs_.find(name);
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    bind_input(name, data, dtype == inputs_.end() ? 0 : byte_size(dtype->second, count), device);
  }
  /// The same for a tensor, whose memory must stay valid. Strings, sequences, optionals and maps are copied. Throws
  /// Error(invalid_argument) when it is not of the input's type.
  void set_input(const std::string& name, const Tensor& tensor) {
    detail::check(camshaft_context_set_input(handle_.get(), name.c_str(), tensor.handle()));
  }
  /// Binds the caller's memory as an output; run() throws Error(invalid_argument) if it turns out too small, or
  /// overlaps other bound memory. An output with an aliased_input may begin where that does: a run then updates it in
  /// place. Outputs that are not bound are kept by the context; nullptr unbinds, and `device` then says where the
  /// context keeps the output. Throws like bind_input().
  void bind_output(const std::string& name, void* data, size_t bytes, Device device = {}) {
    detail::check(
        camshaft_context_bind_output(handle_.get(), name.c_str(), data, bytes, {device.type, device.ordinal}));
  }

  /// The shape an output will have for the input shapes set so far. Throws Error(invalid_argument) when an input's
  /// shape is not set yet, or when the shape depends on the data (ask output() after the run then).
  Dims output_shape(const std::string& name) { return shape_of(name, camshaft_context_output_shape); }
  /// The largest shape that it can have for these, where its own depends on the data. Throws Error(invalid_argument)
  /// when an input's shape is not set yet, and where nothing bounds it.
  Dims largest_output_shape(const std::string& name) { return shape_of(name, camshaft_context_largest_output_shape); }

  /// Computes all outputs. The first run with new shapes plans memory and prepares the kernels; later ones allocate
  /// nothing. Throws Error, or what a tap threw; the context stays usable.
  void run() { finish(camshaft_context_run(handle_.get())); }
  /// Puts a run into a CUDA stream (a cudaStream_t or CUstream, of the GPU that the engine was built for; null is the
  /// default stream) and returns without waiting for it: results, bound or kept, are there when the stream has come to
  /// them. The host waits only for layers that run there (Engine::layers), and for copies where memory of the host that
  /// is not pinned is bound; errors that kernels find in the data (an index out of range) are thrown by the next call
  /// that waits. Runs of one context are done one after another whatever their streams; the second run over the same
  /// memory, and over any of eight sets of it taken in turn, allocates nothing and launches as few pieces as it can.
  /// Throws Error(invalid_argument) on an engine for the CPU.
  ///
  /// While the stream is captured, the run becomes a part of the caller's CUDA graph: over the memory that is bound
  /// now, without a wait, a copy or an allocation. For that the context must have run once with these shapes, all
  /// inputs and outputs must be on the device, and all layers run there; else it throws Error(invalid_argument), naming
  /// what is in the way. The graph may be launched as long as the context exists, but not at the same time as another
  /// run of it, of which neither knows; what it finds wrong in the data is thrown by the context's next call that
  /// waits.
  void enqueue(void* stream) { finish(camshaft_context_enqueue(handle_.get(), stream)); }
  /// The same in the stream of the context's own that copy() uses, too.
  void start() { finish(camshaft_context_start(handle_.get())); }
  /// Waits for the runs that were enqueued or started. Throws what went wrong in them.
  void synchronize() { finish(camshaft_context_synchronize(handle_.get())); }
  /// Waits for what is in front of the run that was enqueued or started last, copies among it, and not for that run:
  /// what the run before gave is read while the next one computes. Errors that kernels find in the data are thrown by
  /// synchronize().
  void synchronize_previous() { finish(camshaft_context_synchronize_previous(handle_.get())); }
  /// Copies bytes between the host's memory and that of the GPU that the engine runs on, in either direction or within
  /// one of both, behind the runs that were enqueued and in front of those that follow. Returns at once where the
  /// host's memory is of Tensor::pinned(): what is read there must stay until a later run or synchronize() has been
  /// waited for, and what is written there is seen then.
  void copy(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
    detail::check(camshaft_context_copy(handle_.get(), to, {to_device.type, to_device.ordinal}, from,
                                        {from_device.type, from_device.ordinal}, bytes));
  }
  /// The same as run() on a thread of the context; `completion` is called there with null, or with the exception that
  /// run() would have thrown. The context must not be touched until then; destroying it waits. `completion` must not
  /// throw, nor destroy the context; it may start the next run. Throws Error(invalid_argument) for an empty one, or
  /// while running.
  void run_async(std::function<void(std::exception_ptr)> completion) {
    if (!completion) throw Error(ErrorCode::invalid_argument, "run_async() needs a function to call at the end");
    using Completion = std::function<void(std::exception_ptr)>;
    auto held = std::make_unique<Completion>(std::move(completion));
    detail::check(camshaft_context_run_async(
        handle_.get(),
        [](void* user, camshaft_status status) {
          const std::unique_ptr<Completion> call(static_cast<Completion*>(user));
          (*call)(status == CAMSHAFT_OK
                      ? nullptr
                      : std::make_exception_ptr(Error(static_cast<ErrorCode>(status), camshaft_error_message())));
        },
        held.get()));
    held.release();
  }
  /// run() looks at it between layers and in long ones, and throws Error(cancelled).
  void set_cancellation(const Cancellation& cancellation) {
    detail::check(camshaft_context_set_cancellation(handle_.get(), cancellation.handle()));
  }

  /// For an engine of one of several ranks (Engine::ranks()): run() meets the others over it, which run at the same
  /// time. Without one such an engine does not run. Throws Error(invalid_argument) for one of another number of ranks.
  void set_communicator(const Communicator& communicator) {
    detail::check(camshaft_context_set_communicator(handle_.get(), communicator.handle()));
  }

  /// The result of the last run, in the context's memory; valid until the next one. Of an enqueued run its data is
  /// there when the stream has come to its end.
  Tensor output(const std::string& name) const {
    camshaft_tensor* output = nullptr;
    detail::check(camshaft_context_output(handle_.get(), name.c_str(), &output));
    return Tensor(output);
  }

  /// Adds layer times to `profiler` from the next run on; nullptr stops. On a GPU they are taken between events on the
  /// device, in a run that is otherwise launched as usual, so that a layer's time includes no wait of the host's; its
  /// kernel then starts when the one before has ended, not earlier as without. Such a run waits at its end. The
  /// profiler must outlive the context's runs.
  void set_profiler(Profiler* profiler) {
    detail::check(camshaft_context_set_profiler(handle_.get(), profiler == nullptr ? nullptr : profiler->handle()));
  }
  /// Calls `tap` with a tensor right after it was computed, in every run; an empty function removes it. Inputs and
  /// constants are not computed: their taps are never called. `tap` must not change taps; what it throws ends the run,
  /// which throws it. Any value of the plan (see Engine::tensor_names) can be tapped; tensors that fusion has removed
  /// are kept when the build's option "debug-tensors" names them. Throws Error(invalid_argument) for a name that the
  /// plan does not have.
  void set_tap(const std::string& tensor, std::function<void(const Tensor&)> tap) {
    std::unique_ptr<Tap> callback;
    if (tap) {
      callback = std::make_unique<Tap>();
      callback->call = std::move(tap);
    }
    detail::check(camshaft_context_set_tap(
        handle_.get(), tensor.c_str(),
        callback == nullptr
            ? nullptr
            : +[](void* user,
                  const camshaft_tensor* computed) { return (*static_cast<Tap*>(user))(Tensor::borrowed(computed)); },
        callback.get()));
    if (callback == nullptr) {
      taps_.erase(tensor);
    } else {
      taps_[tensor] = std::move(callback);
    }
  }

  /// Bytes of intermediate memory in use by this context.
  size_t memory_bytes() const { return camshaft_context_memory_bytes(handle_.get()); }

 private:
  template <class Call>
  Dims shape_of(const std::string& name, const Call& call) {
    Dims dims(8);
    for (;;) {
      size_t rank = 0;
      detail::check(call(handle_.get(), name.c_str(), dims.size(), dims.data(), &rank));
      const bool fits = rank <= dims.size();
      dims.resize(rank);
      if (fits) return dims;
    }
  }

  using Tap = detail::Callback<void(const Tensor&)>;
  struct Free {
    void operator()(camshaft_context* context) const { camshaft_context_free(context); }
  };

  void finish(camshaft_status status) {
    if (status == CAMSHAFT_CANCELLED)
      for (const auto& [name, tap] : taps_) tap->rethrow();
    detail::check(status);
  }

  std::map<std::string, DType> inputs_;
  std::map<std::string, std::unique_ptr<Tap>> taps_;
  std::unique_ptr<camshaft_context, Free> handle_;  // goes first: a run may still call taps
};

}  // namespace v1
}  // namespace camshaft
