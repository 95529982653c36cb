// What a step of a plan runs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "compile/device_queue.h"
#include "compile/place.h"
#include "ir/graph.h"

namespace camshaft {

/// Element type and concrete shape of an operand, once the symbols are bound.
struct OperandShape {
  DType dtype = DType::f32;
  Dims dims;
  /// Elements from one row (the last axis) to the next, where the operand is a slice of wider rows: a part of a
  /// concatenation, say. 0: dense. Only kernels that say so (Kernel::reads_slices, writes_slices) get slices.
  int64_t row_stride = 0;

  /// Elements from one row to the next in any case.
  int64_t pitch() const { return row_stride > 0 ? row_stride : dims.empty() ? 1 : dims.back(); }
};

/// What a kernel prepares itself from: concrete operands, and the symbols' values for fields that are expressions.
/// Omitted optional inputs have a default entry. `symbols` is valid during prepare() only.
struct KernelShapes {
  std::vector<OperandShape> inputs;
  std::vector<OperandShape> outputs;
  const SymbolBindings* symbols = nullptr;
  int threads = 1;
};

/// Memory of one run. Null for omitted inputs. Operands are row-major, dense but for slices, 64-byte aligned when they
/// lie in the arena (slices, and inputs and outputs that the caller binds, have only their dtype's alignment).
struct LaunchArguments {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* workspace = nullptr;  ///< workspace_bytes(), 64-byte aligned
  ThreadPool& pool;
  const Cancellation* cancellation = nullptr;  ///< for kernels that may run long; null: never cancelled
  DeviceQueue* queue = nullptr;                ///< for kernels of Place::device, whose operands are there
  const DeviceQueue* source = nullptr;         ///< of a copy from one GPU to another: that of the former
};

/// A kernel made ready for one set of concrete shapes. run() allocates nothing and may be called again and again, by
/// one thread at a time.
class Launch {
 public:
  virtual ~Launch() = default;
  virtual size_t workspace_bytes() const { return 0; }
  virtual void run(const LaunchArguments& arguments) = 0;
};

/// An implementation chosen and compiled for one region. Immutable: shared by all contexts of an engine.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Where it runs, and where its operands must be. Only kernels of the host may have dynamic outputs.
  virtual Place place() const { return Place::host; }
  /// Whether run() only puts kernels into the queue, and always the same ones for the same operands: then what it puts
  /// there may be recorded and repeated without it.
  virtual bool can_be_recorded() const { return place() == Place::device; }
  /// Whether what was recorded of it can get the operands of another run in its place.
  virtual bool can_be_updated() const { return true; }
  /// Strides, partitions, tables: everything that depends on the concrete shapes. May allocate.
  virtual std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const = 0;
  /// Whether output `o` may be written over input `i` of the same size.
  virtual bool can_run_in_place(size_t /*i*/, size_t /*o*/) const { return false; }
  /// Whether input `i` may be a slice of wider rows (OperandShape::row_stride), and whether output `o` may: then what
  /// lies between the rows, other tensors' elements, is neither read for its value nor written. A concatenation that
  /// writes slices also leaves operands alone that lie in its result already.
  virtual bool reads_slices(size_t /*i*/) const { return false; }
  virtual bool writes_slices(size_t /*o*/) const { return false; }
  /// Whether run() looks at input `i`; false for constants that it holds in packed form.
  virtual bool reads_input(size_t /*i*/) const { return true; }
  /// Whether some output's shape is known only after running; such kernels implement run_dynamic() and not prepare().
  virtual bool has_dynamic_outputs() const { return false; }
  virtual std::vector<Tensor> run_dynamic(const std::vector<Tensor>& inputs, const SymbolBindings& symbols,
                                          ThreadPool& pool, const Cancellation* cancellation = nullptr) const;
};

}  // namespace camshaft
