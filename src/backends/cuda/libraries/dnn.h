// Graphs of operations that cuDNN runs as one kernel.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/cuda/driver/queue.h"
#include "backends/cuda/libraries/libraries.h"
#include "base/dtype.h"
#include "ir/tensor.h"

namespace camshaft::cuda {

/// Whether cuDNN can be used on the device; the first call opens it. Safe to use from several threads, as all here.
bool has_dnn(const Device& device);
/// Whether it is a version whose attention was tested: 9.19 or newer. What earlier ones make of scores that are all
/// -inf is not known, and 9.10.0 has errors. Only where has_dnn().
bool has_dnn_attention();

/// A descriptor of the library's, whatever it describes.
class DnnDescriptor {
 public:
  /// Throws Error, as all members do: unsupported for what the library does not have.
  explicit DnnDescriptor(api::DnnKind kind);
  ~DnnDescriptor();
  DnnDescriptor(DnnDescriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  DnnDescriptor& operator=(DnnDescriptor&&) = delete;

  template <class T>
  void set(api::DnnAttribute which, api::DnnValue type, const T& value) {
    set(which, type, 1, &value);
  }
  void set(api::DnnAttribute which, api::DnnValue type, int64_t count, const void* values);
  void set(api::DnnAttribute which, const std::vector<int64_t>& values);
  void set(api::DnnAttribute which, const DnnDescriptor& part);
  void finish();
  /// How many there are; at most `most` are written to `values`.
  int64_t get(api::DnnAttribute which, api::DnnValue type, int64_t most, void* values) const;
  api::Handle handle() const { return handle_; }

 private:
  api::Handle handle_ = nullptr;
};

/// Sizes and strides of four axes, in elements: images, channels, height and width of what is convolved.
struct DnnTensor {
  enum Kind : uint8_t {
    stored,
    passed_on,  ///< between operations, and never stored
    by_value,   ///< one element in memory of the host, which is read whenever the plan runs
  };
  DType dtype = DType::f16;  ///< f32, f16 or bf16
  Dims dims, strides;
  Kind kind = stored;
};

struct DnnWindow {
  Dims strides, dilations, pads_before, pads_after;  ///< height, width
};

/// What the library made of a graph.
class DnnPlan {
 public:
  size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  friend class DnnGraph;
  friend class DnnRun;
  DnnPlan(std::shared_ptr<const Device> device, DnnDescriptor plan, std::vector<int64_t> ids, size_t workspace_bytes)
      : device_(std::move(device)), plan_(std::move(plan)), ids_(std::move(ids)), workspace_bytes_(workspace_bytes) {}

  std::shared_ptr<const Device> device_;
  DnnDescriptor plan_;
  std::vector<DnnDescriptor> parts_;  // that it was made of
  std::vector<int64_t> ids_;          // of the tensors that have addresses
  size_t workspace_bytes_;
};

/// Runs a plan, for one thread at a time.
class DnnRun {
 public:
  explicit DnnRun(std::shared_ptr<const DnnPlan> plan) : plan_(std::move(plan)) {}
  const DnnPlan& plan() const { return *plan_; }
  /// In the stream of the queue. `addresses`: of the tensors that are not passed on, in the order in which they were
  /// added to the graph. Takes memory of the host when they differ from the last run's, and when a stream is new.
  void run(const Queue& queue, std::span<const std::byte* const> addresses, std::byte* workspace);

 private:
  std::shared_ptr<const DnnPlan> plan_;
  std::optional<DnnDescriptor> arguments_;  // of the last run, and its addresses
  std::vector<const std::byte*> addresses_;
  std::byte* workspace_ = nullptr;
};

/// What may be done to factors before they are multiplied.
enum class DnnFactors : uint8_t { as_they_are, rounded_to_tf32 };

/// Bytes to which tensors must be aligned for cuDNN's fast kernels.
constexpr int64_t dnn_alignment = 16;

/// Operations in order. All sums and pointwise functions are computed in f32.
class DnnGraph {
 public:
  /// Tensors will be aligned to `alignment` bytes, or to their type's where that is more.
  DnnGraph(std::shared_ptr<const Device> device, int64_t alignment)
      : device_(std::move(device)), alignment_(alignment) {}

  size_t add(const DnnTensor& tensor);
  /// y = x ∗ weights; those are [out channels, channels, height, width].
  void add_convolution(size_t x, size_t weights, size_t y, const DnnWindow& window);
  /// c = a · b, of the last two axes; b may have fewer matrices, each for several of a one behind the other.
  void add_product(size_t a, size_t b, size_t c);
  /// y = function(x), or function(x, b), where b may have one element for all along an axis.
  void add_pointwise(api::DnnPointwise function, size_t x, size_t y, std::optional<size_t> b = std::nullopt);
  /// Of each row of x, into a column.
  void add_reduction(api::DnnReduction function, size_t x, size_t y);

  /// By the engine that the library ranks at `rank`, 0 being the one that it expects to be fastest, or the last where
  /// it has fewer; only of those whose results do not depend on timing, which sum in f32, and which do no more to
  /// factors of f32 than they may. Throws Error(unsupported) where it has none.
  std::shared_ptr<const DnnPlan> plan(int rank, DType dtype, DnnFactors factors) &&;

 private:
  std::shared_ptr<const Device> device_;
  int64_t alignment_;
  std::vector<DnnDescriptor> tensors_, settings_, operations_;
  std::vector<int64_t> stored_;  // ids of those that are not passed on
};

}  // namespace camshaft::cuda
