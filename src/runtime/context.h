// Running an engine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/communicator.h"
#include "base/error.h"
#include "runtime/profiler.h"
#include "runtime/tensor_view.h"

namespace camshaft {

class ThreadPool;

/// Worker threads that contexts share. Runs that overlap in time divide them evenly, layer by layer; results do not
/// depend on how many a run gets.
class Workers;
/// `threads` counts the callers of run() too, which always run: beside them compute at most as many workers as remain
/// of it, none where the callers are as many or more. 0 means one for each core that the process may use (its affinity
/// and the CPU quota of its control group). Throws Error(invalid_argument) below 0.
std::shared_ptr<Workers> make_workers(int threads = 0);

struct ContextOptions {
  /// Threads that a run uses at most, the caller's among them; at least 1, and no more than `workers` has. 0 means all.
  /// Without `workers` there may be more than one for each core: the context then has workers of its own.
  int threads = 0;
  /// Null: those of the process, one thread for each core that it may use, unless `threads` are more. Give a context
  /// workers of its own, and it shares with nobody.
  std::shared_ptr<Workers> workers = nullptr;
  /// Whether the memory for intermediate tensors is taken from the engine for each run and given back after it: as much
  /// in all as for the runs that were ever done at the same time, not for all contexts. On the CPU alone.
  bool shares_memory = false;
  /// What one run may take, as a build counts it: more is refused when the shapes are bound, and loops that go on for
  /// longer while they run. 0: what a build may by default; below 0: anything. On a GPU what runs on it counts, too.
  double max_operations = -1;
  /// Bytes that the context may hold in the host's memory at once; 0 and below as above.
  double max_memory = -1;
};

/// Memory for one run at a time, and threads that it shares with others. Contexts of one engine are independent: use
/// one a thread. Not copyable. One for the CPU goes on working in a forked child, with threads of the child's own.
///
///   Context context = engine.create_context();
///   context.set_input("x", {1, 3, 224, 224}, pixels);
///   context.run();
///   TensorView y = context.output("y");
///
/// On a GPU, in the caller's stream and memory:
///
///   context.set_input("x", {1, 3, 224, 224}, pixels_on_gpu, engine.device());
///   context.bind_output("y", scores_on_gpu, bytes, engine.device());
///   context.enqueue(stream);  // a cudaStream_t; returns at once
class Context {
 public:
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();

  /// Sets the shape of an input. Needed once for inputs with dynamic sizes, and again whenever they change. Throws
  /// Error(invalid_argument) for an unknown name, a wrong rank, a fixed size that differs, or a shape outside every
  /// profile.
  void set_input_shape(const std::string& name, const std::vector<int64_t>& dims);
  /// Binds the caller's memory as an input, without a copy: row-major elements of the input's dtype (std::string
  /// objects for strings), `bytes` bytes of them, which stay valid and unchanged during run(), or until the work of
  /// enqueue() is done. `device`: whose memory it is, the host's or that of the GPU that the engine runs on
  /// (Engine::device()). Throws Error(invalid_argument) for memory that is not there, for another GPU's, and for such
  /// of a GPU that is not aligned to the dtype's size.
  void bind_input(const std::string& name, const void* data, size_t bytes, DeviceId device = DeviceId::host);
  /// Both at once; `data` holds the product of `dims` elements.
  void set_input(const std::string& name, const std::vector<int64_t>& dims, const void* data,
                 DeviceId device = DeviceId::host);
  /// The same for a value of any type. Sequences, optionals and maps can be set in this way alone; they are copied. An
  /// optional is also given as the value that it has.
  /// Throws Error(invalid_argument) when the value is not of the input's type.
  void set_input(const std::string& name, const TensorView& value);
  /// Binds the caller's memory as an output; run() throws Error(invalid_argument) if it turns out too small, or
  /// overlaps other bound memory. An output with an aliased_input may begin where that does: a run then updates it in
  /// place. Outputs that are not bound are kept by the context; nullptr unbinds, and `device` then says where the
  /// context keeps the output. Throws like bind_input().
  void bind_output(const std::string& name, void* data, size_t bytes, DeviceId device = DeviceId::host);

  /// The shape an output will have for the input shapes set so far. Throws Error(invalid_argument) when an input's
  /// shape is not set yet, or when the shape depends on the data (ask output() after the run then).
  std::vector<int64_t> output_shape(const std::string& name);
  /// The largest shape that it can have for these, where its own depends on the data: elements that are not zero are no
  /// more than all. Throws Error(invalid_argument) when an input's shape is not set yet, and where nothing bounds it.
  std::vector<int64_t> largest_output_shape(const std::string& name);

  /// Computes all outputs. The first run with new shapes plans memory and prepares the kernels; later ones allocate
  /// nothing. Throws Error; the context stays usable.
  void run();
  /// Copies bytes between the host's memory and that of the GPU that the engine runs on, in either direction or within
  /// one of both, behind the runs that were enqueued and in front of those that follow. Returns at once where the
  /// host's memory is pinned: what is read there must stay until a later run or synchronize() has been waited for, and
  /// what is written there is seen then. Throws Error(invalid_argument) for memory that is not there.
  void copy(std::byte* to, DeviceId to_device, const std::byte* from, DeviceId from_device, size_t bytes);
  /// Puts a run into a CUDA stream (a cudaStream_t or CUstream, of the GPU that the engine runs on; null is its
  /// default stream) and returns without waiting for it: results, bound or kept, are there when the stream has come to
  /// them. The host waits only for layers that run there (Engine::layers), and for copies where memory of the host that
  /// is not pinned is bound; errors that kernels find in the data (an index out of range) are thrown by the next call
  /// that waits. Runs of one context are done one after another whatever their streams; the second run over the same
  /// memory, and over any of eight sets of it taken in turn, allocates nothing and launches as few pieces as it can.
  /// Throws Error(invalid_argument) on an engine for the CPU, and for a stream of another GPU.
  ///
  /// While the stream is captured, the run becomes a part of the caller's CUDA graph: over the memory that is bound
  /// now, without a wait, a copy or an allocation. For that the context must have run once with these shapes, all
  /// inputs and outputs must be on the device, and all layers run there; else it throws Error(invalid_argument), naming
  /// what is in the way. The graph may be launched as long as the context exists, but not at the same time as another
  /// run of it, of which neither knows; what it finds wrong in the data is thrown by the context's next call that
  /// waits.
  void enqueue(void* stream);
  /// The same in the stream of the context's own that copy() uses, too.
  void start();
  /// Waits for the runs that were enqueued or started. Throws what went wrong in them.
  void synchronize();
  /// Waits for what is in front of the run that was enqueued or started last, copies among it, and not for that run.
  /// Errors that kernels find in the data are thrown by synchronize().
  void synchronize_previous();
  /// The same on a thread of the context; `completion` is called there with null, or with the exception that run()
  /// would have thrown. The context must not be touched until then; destroying it waits. `completion` must not throw,
  /// nor destroy the context; it may start the next run. Throws Error(invalid_argument) for an empty one, or while
  /// running.
  void run_async(std::function<void(std::exception_ptr)> completion);
  /// For an engine of one of several ranks (Engine::ranks), which meet over it in each run: the others must run at the
  /// same time. A run that fails ends the communicator, so that no rank waits for one that does not come. Null takes it
  /// away. Throws Error(invalid_argument) for one of another number of ranks.
  void set_communicator(std::shared_ptr<Communicator> communicator);
  /// In place of a communicator: the other ranks are taken to hold what this one does, which is wrong, but is all that
  /// building, measuring and verifying one rank alone needs.
  void rehearse();
  /// run() looks at it between layers and in long ones, and throws Error(cancelled).
  void set_cancellation(Cancellation cancellation);

  /// The result of the last run; valid until the next one. Of an enqueued run its data is there when the stream has
  /// come to its end.
  TensorView output(const std::string& name) const;

  /// Adds layer times to `profiler` from the next run on; nullptr stops. On a GPU they are taken between events on the
  /// device, in a run that is otherwise launched as usual, so that a layer's time includes no wait of the host's; its
  /// kernel then starts when the one before has ended, not earlier as without. Such a run waits at its end. The
  /// profiler must outlive the context's runs.
  void set_profiler(Profiler* profiler);
  /// Calls `tap` with a tensor right after it was computed, in every run; an empty function removes it. Inputs and
  /// constants are not computed: their taps are never called. `tap` must not change taps. Any value of the plan (see
  /// Engine::tensor_names) can be tapped; tensors that fusion has removed are kept when they are named in
  /// BuildOptions::debug_tensors. Throws Error(invalid_argument) for a name that the plan does not have.
  void set_tap(const std::string& tensor, std::function<void(const TensorView&)> tap);
  /// The same for a tap that takes the run's threads, which wait meanwhile, for loops of its own. Takes the place of
  /// the tensor's other tap.
  void set_parallel_tap(const std::string& tensor, std::function<void(const TensorView&, ThreadPool&)> tap);

  /// Bytes of intermediate memory in use by this context. Between runs of one that shares it only what is kept: tensors
  /// that depend on the shapes alone, at most 64 MiB for all shapes that it has seen lately.
  size_t memory_bytes() const;

 private:
  friend class Engine;
  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace camshaft
