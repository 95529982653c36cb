#include "backends/cuda/libraries/dnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"

namespace camshaft::cuda {

namespace {

void check_dnn(api::Result result, std::string_view action) {
  if (result == api::success) return;
  const bool is_unsupported = result / 1000 == 3;
  throw Error(is_unsupported ? ErrorCode::unsupported : ErrorCode::internal,
              fmt::format("cuDNN {} failed in {}: status {}", dnn_library().version, action, result));
}

const api::Dnn& dnn() {
  return dnn_library().functions;
}

/// What plans for a device are made with. It has no stream.
struct DnnHandle {
  api::Handle handle = nullptr;
  std::mutex mutex;  ///< of all plans, which no two threads may run at once
};

/// Until its end the calling thread may take memory while it records a stream.
class TakesMemory {
 public:
  explicit TakesMemory(const Device& device) : driver_(device.driver()) { exchange(); }
  ~TakesMemory() { exchange(); }
  TakesMemory(const TakesMemory&) = delete;
  TakesMemory& operator=(const TakesMemory&) = delete;

 private:
  void exchange() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  const api::Driver& driver_;
  int mode_ = api::capture_of_nobody;
};

void set_stream(api::Handle handle, const Stream& stream) {
  check_dnn(dnn().cudnnSetStream(handle, stream.handle()), "taking a stream");
}

/// Handles of a device that no stream has: made once, and never ended, which would wait for the whole device, and be
/// too late once the library has ended with the process.
struct FreeHandles {
  explicit FreeHandles(const Device& device) : parking(device) {}
  std::mutex mutex;
  std::vector<api::Handle> handles;
  Stream parking;  ///< theirs: it does not end
};

FreeHandles& free_handles_of(const Device& device) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, FreeHandles>;
  const std::lock_guard lock(mutex);
  return all.try_emplace(device.facts().ordinal, device).first->second;
}

/// What launches in one stream: a handle that gets another one looks at the one before, which may be gone by then, or
/// be recorded by another thread. (A server with two instances on a GPU ended by that.) So it gets another one before
/// its stream ends.
class StreamHandle {
 public:
  explicit StreamHandle(const Stream& stream) : free_(free_handles_of(stream.device())) {
    {
      const std::lock_guard lock(free_.mutex);
      if (!free_.handles.empty()) handle_ = free_.handles.back(), free_.handles.pop_back();
    }
    if (!handle_) check_dnn(dnn().cudnnCreate(&handle_), "starting for a stream");
    try {
      set_stream(handle_, stream);
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~StreamHandle() {
    if (dnn().cudnnSetStream(handle_, free_.parking.handle()) == api::success) give_back();
  }
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  api::Handle get() const { return handle_; }

 private:
  void give_back() {
    const std::lock_guard lock(free_.mutex);
    free_.handles.push_back(handle_);
  }
  FreeHandles& free_;
  api::Handle handle_ = nullptr;
};

// Callers' streams may end at any time, so that theirs stay until the process ends: for the next stream at that
// address.
api::Handle stream_handle(const Stream& stream) {
  std::shared_ptr<void>& kept = stream.dnn_handle();
  if (kept) return static_cast<StreamHandle*>(kept.get())->get();
  const TakesMemory takes_memory(stream.device());
  if (stream.is_own()) {
    kept = std::make_shared<StreamHandle>(stream);
  } else {
    static std::mutex mutex;
    static auto& of_callers = *new std::map<std::pair<int, api::Handle>, std::shared_ptr<StreamHandle>>;
    const std::lock_guard lock(mutex);
    std::shared_ptr<StreamHandle>& found = of_callers[{stream.device().facts().ordinal, stream.handle()}];
    if (!found) found = std::make_shared<StreamHandle>(stream);
    kept = found;
  }
  return static_cast<StreamHandle*>(kept.get())->get();
}

// Made once, and kept until the process ends.
DnnHandle& dnn_handle_of(const Device& device) {
  static std::mutex mutex;
  static auto& handles = *new std::map<int, DnnHandle>;
  const std::lock_guard lock(mutex);
  const auto [it, is_new] = handles.try_emplace(device.facts().ordinal);
  if (is_new && dnn_library().problem.empty()) {
    const Current current(device);
    if (const api::Result result = dnn().cudnnCreate(&it->second.handle); result != api::success) {
      it->second.handle = nullptr;
      warn_of_refusal(
          "cuDNN", dnn_library().file.path(),
          fmt::format("cuDNN {} does not start on {}: status {}", dnn_library().version, device.facts().name, result));
    }
  }
  return it->second;
}

api::DnnType type_of(DType dtype) {
  return dtype == DType::f32 ? api::dnn_f32 : dtype == DType::f16 ? api::dnn_f16 : api::dnn_bf16;
}

// Whether an engine computes what is asked for.
bool is_trusted(const DnnDescriptor& config, DType dtype, DnnFactors factors) {
  const DnnDescriptor engine(api::dnn_engine);
  api::Handle handle = engine.handle();
  config.get(api::dnn_engine_config_engine, api::dnn_value_descriptor, 1, &handle);
  int notes[32] = {};
  const int64_t count = engine.get(api::dnn_engine_notes, api::dnn_value_note, std::size(notes), notes);
  return std::none_of(notes, notes + std::min<int64_t>(count, std::size(notes)), [&](int note) {
    // To the library, f32 on tensor cores is TF32; narrowed inputs would lose f32's range too.
    const bool rounds = note == api::dnn_note_narrowed_inputs ||
                        (note == api::dnn_note_tensor_core && factors == DnnFactors::as_they_are);
    return note == api::dnn_note_narrowed_sums || note == api::dnn_note_fft ||
           note == api::dnn_note_not_deterministic || note == api::dnn_note_winograd || (dtype == DType::f32 && rounds);
  });
}

}  // namespace

bool has_dnn(const Device& device) {
  return dnn_handle_of(device).handle != nullptr;
}

bool has_dnn_attention() {
  int major = 0, minor = 0;
  const api::Dnn& library = dnn_library().functions;
  return library.cudnnGetProperty(api::major_version, &major) == api::success &&
         library.cudnnGetProperty(api::minor_version, &minor) == api::success && major * 100 + minor >= 919;
}

DnnDescriptor::DnnDescriptor(api::DnnKind kind) {
  check_dnn(dnn().cudnnBackendCreateDescriptor(kind, &handle_), "describing an operation");
}

DnnDescriptor::~DnnDescriptor() {
  if (handle_) dnn().cudnnBackendDestroyDescriptor(handle_);
}

void DnnDescriptor::set(api::DnnAttribute which, api::DnnValue type, int64_t count, const void* values) {
  check_dnn(dnn().cudnnBackendSetAttribute(handle_, which, type, count, values), "describing an operation");
}

void DnnDescriptor::set(api::DnnAttribute which, const std::vector<int64_t>& values) {
  set(which, api::dnn_value_int64, static_cast<int64_t>(values.size()), values.data());
}

void DnnDescriptor::set(api::DnnAttribute which, const DnnDescriptor& part) {
  set(which, api::dnn_value_descriptor, part.handle_);
}

void DnnDescriptor::finish() {
  check_dnn(dnn().cudnnBackendFinalize(handle_), "preparing an operation");
}

int64_t DnnDescriptor::get(api::DnnAttribute which, api::DnnValue type, int64_t most, void* values) const {
  int64_t count = 0;
  check_dnn(dnn().cudnnBackendGetAttribute(handle_, which, type, most, &count, values), "choosing an engine");
  return count;
}

void DnnRun::run(const Queue& queue, std::span<const std::byte* const> addresses, std::byte* workspace) {
  const Current current(*plan_->device_);
  const bool is_known = arguments_ && workspace == workspace_ &&
                        std::equal(addresses.begin(), addresses.end(), addresses_.begin(), addresses_.end());
  if (!is_known) {
    addresses_.assign(addresses.begin(), addresses.end());
    workspace_ = workspace;
    arguments_.reset();
    DnnDescriptor& arguments = arguments_.emplace(api::dnn_arguments);
    arguments.set(api::dnn_arguments_ids, plan_->ids_);
    arguments.set(api::dnn_arguments_pointers, api::dnn_value_pointer, static_cast<int64_t>(addresses_.size()),
                  addresses_.data());
    arguments.set(api::dnn_arguments_workspace, api::dnn_value_pointer, workspace_);
    arguments.finish();
  }
  // What starts while a stream is recorded would be a part of that: the recorder's handle is there before.
  if (!queue.is_recording()) stream_handle(queue.recorder());
  const api::Handle handle = stream_handle(queue.stream());
  const std::lock_guard lock(dnn_handle_of(*plan_->device_).mutex);
  check_dnn(dnn().cudnnBackendExecute(handle, plan_->plan_.handle(), arguments_->handle()), "launching an operation");
}

size_t DnnGraph::add(const DnnTensor& tensor) {
  const auto id = static_cast<int64_t>(tensors_.size()) + 1;
  DnnDescriptor& made = tensors_.emplace_back(api::dnn_tensor);
  made.set(api::dnn_tensor_id, api::dnn_value_int64, id);
  made.set(api::dnn_tensor_type, api::dnn_value_type, type_of(tensor.dtype));
  made.set(api::dnn_tensor_alignment, api::dnn_value_int64, std::max<int64_t>(alignment_, bit_width(tensor.dtype) / 8));
  made.set(api::dnn_tensor_sizes, tensor.dims);
  made.set(api::dnn_tensor_strides, tensor.strides);
  const bool is_passed_on = tensor.kind == DnnTensor::passed_on;
  made.set(api::dnn_tensor_is_virtual, api::dnn_value_boolean, is_passed_on);
  made.set(api::dnn_tensor_is_by_value, api::dnn_value_boolean, tensor.kind == DnnTensor::by_value);
  made.finish();
  if (!is_passed_on) stored_.push_back(id);
  return tensors_.size() - 1;
}

void DnnGraph::add_convolution(size_t x, size_t weights, size_t y, const DnnWindow& window) {
  DnnDescriptor& settings = settings_.emplace_back(api::dnn_convolution);
  settings.set(api::dnn_convolution_precision, api::dnn_value_type, api::dnn_f32);
  settings.set(api::dnn_convolution_mode, api::dnn_value_convolution_mode, api::dnn_cross_correlation);
  settings.set(api::dnn_convolution_axes, api::dnn_value_int64, int64_t{2});
  settings.set(api::dnn_convolution_dilations, window.dilations);
  settings.set(api::dnn_convolution_strides, window.strides);
  settings.set(api::dnn_convolution_pads_before, window.pads_before);
  settings.set(api::dnn_convolution_pads_after, window.pads_after);
  settings.finish();
  DnnDescriptor& made = operations_.emplace_back(api::dnn_operation_convolution);
  made.set(api::dnn_operation_convolution_settings, settings);
  made.set(api::dnn_operation_convolution_x, tensors_[x]);
  made.set(api::dnn_operation_convolution_weights, tensors_[weights]);
  made.set(api::dnn_operation_convolution_y, tensors_[y]);
  made.set(api::dnn_operation_convolution_alpha, api::dnn_value_float, 1.0F);
  made.set(api::dnn_operation_convolution_beta, api::dnn_value_float, 0.0F);
  made.finish();
}

void DnnGraph::add_product(size_t a, size_t b, size_t c) {
  DnnDescriptor& settings = settings_.emplace_back(api::dnn_matmul);
  settings.set(api::dnn_matmul_precision, api::dnn_value_type, api::dnn_f32);
  settings.finish();
  DnnDescriptor& made = operations_.emplace_back(api::dnn_operation_matmul);
  made.set(api::dnn_operation_matmul_settings, settings);
  made.set(api::dnn_operation_matmul_a, tensors_[a]);
  made.set(api::dnn_operation_matmul_b, tensors_[b]);
  made.set(api::dnn_operation_matmul_c, tensors_[c]);
  made.finish();
}

void DnnGraph::add_pointwise(api::DnnPointwise function, size_t x, size_t y, std::optional<size_t> b) {
  DnnDescriptor& settings = settings_.emplace_back(api::dnn_pointwise);
  settings.set(api::dnn_pointwise_mode, api::dnn_value_pointwise_mode, function);
  settings.set(api::dnn_pointwise_precision, api::dnn_value_type, api::dnn_f32);
  if (function == api::dnn_relu) settings.set(api::dnn_pointwise_nan, api::dnn_value_nan, api::dnn_keep_nan);
  settings.finish();
  DnnDescriptor& made = operations_.emplace_back(api::dnn_operation_pointwise);
  made.set(api::dnn_operation_pointwise_settings, settings);
  made.set(api::dnn_operation_pointwise_x, tensors_[x]);
  if (b) made.set(api::dnn_operation_pointwise_b, tensors_[*b]);
  made.set(api::dnn_operation_pointwise_y, tensors_[y]);
  made.finish();
}

void DnnGraph::add_reduction(api::DnnReduction function, size_t x, size_t y) {
  DnnDescriptor& settings = settings_.emplace_back(api::dnn_reduction);
  settings.set(api::dnn_reduction_operator, api::dnn_value_reduction, function);
  settings.set(api::dnn_reduction_precision, api::dnn_value_type, api::dnn_f32);
  settings.finish();
  DnnDescriptor& made = operations_.emplace_back(api::dnn_operation_reduction);
  made.set(api::dnn_operation_reduction_settings, settings);
  made.set(api::dnn_operation_reduction_x, tensors_[x]);
  made.set(api::dnn_operation_reduction_y, tensors_[y]);
  made.finish();
}

std::shared_ptr<const DnnPlan> DnnGraph::plan(int rank, DType dtype, DnnFactors factors) && {
  const Current current(*device_);
  DnnHandle& library = dnn_handle_of(*device_);
  const std::lock_guard lock(library.mutex);
  std::vector<api::Handle> operations;
  for (const DnnDescriptor& operation : operations_) operations.push_back(operation.handle());
  DnnDescriptor graph(api::dnn_graph);
  graph.set(api::dnn_graph_operations, api::dnn_value_descriptor, static_cast<int64_t>(operations.size()),
            operations.data());
  graph.set(api::dnn_graph_library, api::dnn_value_library, library.handle);
  graph.finish();
  DnnDescriptor heuristic(api::dnn_heuristic);
  heuristic.set(api::dnn_heuristic_graph, graph);
  heuristic.set(api::dnn_heuristic_mode, api::dnn_value_heuristic_mode, api::dnn_heuristic_a);
  heuristic.finish();
  constexpr size_t most = 24;
  std::vector<DnnDescriptor> configs;
  std::vector<api::Handle> handles;
  for (size_t i = 0; i < most; ++i) handles.push_back(configs.emplace_back(api::dnn_engine_config).handle());
  const int64_t count =
      heuristic.get(api::dnn_heuristic_results, api::dnn_value_descriptor, int64_t{most}, handles.data());
  constexpr int64_t most_workspace = int64_t{256} << 20;
  std::shared_ptr<DnnPlan> best;
  for (int64_t i = 0; i < std::min<int64_t>(count, most) && rank >= 0; ++i) {
    const DnnDescriptor& config = configs[static_cast<size_t>(i)];
    if (!is_trusted(config, dtype, factors)) continue;
    DnnDescriptor plan(api::dnn_plan);
    plan.set(api::dnn_plan_library, api::dnn_value_library, library.handle);
    plan.set(api::dnn_plan_engine_config, config);
    if (dnn().cudnnBackendFinalize(plan.handle()) != api::success) continue;
    int64_t workspace = 0;
    plan.get(api::dnn_plan_workspace_bytes, api::dnn_value_int64, 1, &workspace);
    if (workspace > most_workspace) continue;
    best.reset(new DnnPlan(device_, std::move(plan), stored_, static_cast<size_t>(workspace)));
    --rank;
  }
  if (!best)
    throw Error(ErrorCode::unsupported, fmt::format("cuDNN {} has no engine for an operation", dnn_library().version));
  for (auto* parts : {&tensors_, &settings_, &operations_, &configs})
    std::move(parts->begin(), parts->end(), std::back_inserter(best->parts_));
  best->parts_.push_back(std::move(graph));
  return best;
}

}  // namespace camshaft::cuda
