#include "backends/cuda/tactics/compiled_product.h"

#include <algorithm>

#include "backends/cuda/tactics/narrow.h"

namespace camshaft::cuda {

namespace {

constexpr int most_of_a_cluster = 8;

}  // namespace

CompiledProduct::CompiledProduct(const Workshop& workshop, const ProductView& view, const TileChoice& choice,
                                 const ContractSize& optimum, DeviceWeights weight_rows,
                                 std::shared_ptr<const DeviceBuffer> begin_of_sums)
    : device(workshop.device()),
      tile(choice.tile),
      weights(std::move(weight_rows)),
      begin(std::move(begin_of_sums)),
      workshop_(workshop),
      form_(view.form),
      is_product_(!view.conv),
      splits_(choice.splits),
      optimum_(optimum),
      epilogue_(view.epilogue) {}

const Function& CompiledProduct::function(Aligned aligned) const {
  return made(of_aligned_[static_cast<size_t>(aligned)], aligned, false);
}

const Function& CompiledProduct::tensor_function(Aligned aligned) const {
  return made(of_tensors_[static_cast<size_t>(aligned)], aligned, true);
}

const Function& CompiledProduct::made(std::optional<Function>& made, Aligned aligned, bool tensor_copies) const {
  const std::lock_guard lock(mutex_);
  if (!made) {
    ContractForm form = form_;
    form.aligned = aligned != Aligned::nothing;
    form.tensor_copies = tensor_copies;
    made = workshop_.module("contract", contract_text(form, tile, finish_text(epilogue_, aligned == Aligned::all)))
               .function("contract", narrow(most_shared_bytes()));
  }
  return *made;
}

int64_t CompiledProduct::bytes_of_few() const {
  constexpr int64_t more_than_half = 114 * 1024;  // of 228 KB
  const int64_t needed = tile.shared_bytes();
  if (!tile.by_warpgroups || tile.persistent || !is_product_) return needed;
  return std::max(needed, std::min(more_than_half, device->facts().shared_bytes_per_block));
}

bool CompiledProduct::can_be_cluster(int splits) const {
  return splits > 1 && splits <= most_of_a_cluster && device->facts().features.clusters &&
         tile.shared_bytes() + tile.cluster_bytes(splits) + most_epilogue_shared_bytes <=
             device->facts().shared_bytes_per_block;
}

int CompiledProduct::splits(const ContractSize& size) const {
  if (tile.from_registers) return 1;
  return size.is_same_work(optimum_) ? splits_ : choose_splits(form_, tile, size, device->facts()).splits;
}

int64_t CompiledProduct::most_shared_bytes() const {
  if (tile.patch_rows > 0) return patch_bytes(*form_.window, tile, most_patch_columns);
  int64_t most = bytes_of_few();
  for (int splits = 2; splits <= most_of_a_cluster; ++splits)
    if (can_be_cluster(splits)) most = std::max<int64_t>(most, tile.shared_bytes() + tile.cluster_bytes(splits));
  return most;
}

}  // namespace camshaft::cuda
