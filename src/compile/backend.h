// The one interface between the compiler and a device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/communicator.h"
#include "compile/constants/packed_constants.h"
#include "compile/kernel.h"
#include "compile/tactic.h"
#include "ir/ops/contract.h"
#include "optimize/pass_list.h"

namespace camshaft {

/// What a device does in a second at most, at its highest clock; 0: unknown.
struct DeviceLimits {
  double memory_bytes = 0;  ///< read or written
  /// Multiplications and additions of f32, of f16 or bf16 (on tensor cores) and of f32 rounded to TF32.
  double f32_flops = 0, half_flops = 0, tf32_flops = 0;
};

/// Facts about a device, for reports, tuning keys and engine provenance.
struct DeviceInfo {
  std::string kind;  ///< "cpu", "cuda"
  std::string name;  ///< brand string
  std::string isa;   ///< instruction set that kernels were chosen for, e.g. "avx512"
  int cores = 0;     ///< hardware threads available to this process
  int64_t memory_bytes = 0;
  DeviceLimits limits;  ///< of a GPU; those of the host are measured (cpu/machine_limits.h)
  std::vector<std::string> features;
  std::string code;  ///< versions of all that makes its kernels: sources, libraries, compiler
  /// Which one it is here; no part of keys, so that equal devices share what was measured.
  DeviceId id = DeviceId::host;
};

/// What a rank tells the others about links between devices.
struct LinkOffer {
  std::string kind;     ///< "NCCL 2.28.9": ranks of one kind can have a link; empty: this one cannot
  std::string device;   ///< tells the machine's devices apart, whatever their numbers in a process
  std::string problem;  ///< why a device that could have a link otherwise has none
};

/// A region as a backend sees it: a node in its graph. Shapes may be symbolic; `symbols` are the values to optimise
/// for.
struct RegionView {
  const Graph& graph;
  const Node& node;
  const SymbolBindings& symbols;
  int threads = 1;  ///< that it is to run on, for estimates alone: any number may run an engine

  /// The constant at the node's input i; null when it is omitted, not a constant, or stored in packed form only.
  const Tensor* constant(size_t i) const {
    const ValueId id = i < node.inputs.size() ? node.inputs[i] : no_value;
    const Tensor* tensor = id == no_value ? nullptr : graph.value(id).constant.get();
    return tensor && tensor->is_elided() ? nullptr : tensor;
  }
};

/// A device that runs regions. Implementations are stateless but for caches, and safe to use from several threads.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const DeviceInfo& device() const = 0;
  /// For a context, or for what all of them share; null when all kernels run on the host.
  virtual std::unique_ptr<DeviceQueue> make_queue() const { return nullptr; }
  /// For one of its queues; null when the device cannot tell the time: then its kernels are chosen by estimate.
  virtual std::unique_ptr<DeviceStopwatch> make_stopwatch(DeviceQueue& /*queue*/) const { return nullptr; }
  /// How its device can meet those of other ranks (base/communicator.h).
  virtual LinkOffer link_offer() const { return {}; }
  /// Bytes that rank 0 sends to all for make_link(). Throws Error.
  virtual std::vector<std::byte> make_link_key() const { return {}; }
  /// Called by all ranks at the same time; returns when all have. Throws Error where there is no link after all.
  virtual std::shared_ptr<DeviceLink> make_link(int /*rank*/, int /*size*/, std::span<const std::byte> /*key*/) const {
    return nullptr;
  }
  /// The passes that bring a model into the form that its tactics are written for. `storage`: of what passes between
  /// regions, a type that it gains_from(), or f32. `rounding`: what products of f32 may do to their operands, one that
  /// it gains_from_rounding(), or none.
  virtual BackendPasses passes(DType storage, ops::Rounding rounding) const = 0;
  /// Whether regions that store their results as `dtype` are faster here than with f32: f16, bf16, or i8 for steps.
  virtual bool gains_from(DType /*dtype*/) const { return false; }
  /// Whether products of f32 are faster here when their operands may be rounded so.
  virtual bool gains_from_rounding(ops::Rounding /*rounding*/) const { return false; }
  /// All tactics for this region, cheapest by estimate first. Never empty: the last resort is the reference evaluation.
  virtual std::vector<Tactic> tactics(const RegionView& region) const = 0;
  /// The one of tactics() that is written so (Tactic::str()), as an engine records it; a backend may know whose it is
  /// without asking all others for their estimates.
  virtual std::optional<Tactic> find_tactic(const RegionView& region, std::string_view written) const {
    for (Tactic& tactic : tactics(region))
      if (tactic.str() == written) return std::move(tactic);
    return std::nullopt;
  }
  /// The kernel of one of the region's tactics(). Throws Error(invalid_argument) for a tactic that the region does not
  /// have.
  virtual std::shared_ptr<const Kernel> compile(const RegionView& region, const Tactic& tactic,
                                                PackedConstants& constants) const = 0;
  /// Whether the raw constant can be recovered from this layout: bit by bit, or as far as an operator that allows its
  /// operands to be rounded needs it.
  virtual bool can_unpack(const std::string& layout) const = 0;
  /// Recovers a raw constant from a packed one, in `dtype`, or in the narrower one that the layout rounds it to (see
  /// PackedConstants::set_unpack); undefined unless can_unpack(). Throws
  /// Error(corrupt_engine) for an unknown layout, or one that does not fit the bytes.
  virtual Tensor unpack(const PackedConstant& packed, DType dtype, const Dims& dims) const = 0;
};

/// The tactic "reference": the operator's own evaluation. Works for every node, on the host.
std::shared_ptr<const Kernel> make_reference_kernel(const RegionView& region);

}  // namespace camshaft
