#include "backends/cuda/tactics/reduce_form.h"

#include <algorithm>
#include <bit>

#include "backends/cuda/codegen/reduce_text.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/row_launch.h"
#include "base/divide_up.h"

namespace camshaft::cuda {

// The shape, then a number for each operand, and two nests: nothing lies between them.
static_assert(offsetof(ReduceParameters<2>, along) == sizeof(ReduceShape) &&
              offsetof(ReduceParameters<2>, kept) == sizeof(ReduceShape) + 2 * sizeof(int64_t) &&
              offsetof(ReduceParameters<2>, reduced) == offsetof(ReduceParameters<2>, kept) + sizeof(Nest<2>) &&
              sizeof(ReduceParameters<2>) == offsetof(ReduceParameters<2>, reduced) + sizeof(Nest<2>));

void Walk::put_outside(int64_t size, const Dims& steps, bool merge) {
  for (size_t k = 0; merge && k < steps.size(); ++k) merge = steps[k] == strides[k].front() * sizes.front();
  if (merge) {
    sizes.front() *= size;
    return;
  }
  sizes.insert(sizes.begin(), size);
  for (size_t k = 0; k < steps.size(); ++k) strides[k].insert(strides[k].begin(), steps[k]);
}

Dims Walk::take_inside() {
  Dims steps;
  sizes.pop_back();
  for (Dims& own : strides) {
    steps.push_back(own.back());
    own.pop_back();
  }
  return steps;
}

WalkedAxes::WalkedAxes(const Dims& dims, const std::vector<int64_t>& axes, const std::vector<Dims>& strides)
    : kept(strides.size()), reduced(strides.size()) {
  bool first = true, last = false;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 1) continue;
    const bool stays = !std::count(axes.begin(), axes.end(), static_cast<int64_t>(d));
    Dims steps;
    for (const Dims& own : strides) steps.push_back(own[d]);
    (stays ? kept : reduced).put_outside(dims[d], steps, !first && stays == last);
    if (first) ends_kept = stays;
    first = false;
    last = stays;
  }
}

bool WalkedAxes::has_chunks(int elements) const {
  const Walk& inside = innermost();
  if (elements == 1 || inside.sizes.empty() || inside.sizes.back() % elements != 0) return false;
  for (size_t k = 0; k < inside.strides.size(); ++k) {
    const int64_t along = inside.strides[k].back();
    if (along != 0 && along != 1) return false;
    for (const Walk* walk : {&kept, &reduced})
      for (size_t d = 0; d < walk->sizes.size() && along == 1; ++d)
        if (!(walk == &inside && d + 1 == walk->sizes.size()) && walk->strides[k][d] % elements != 0) return false;
  }
  return true;
}

ReduceForm::ReduceForm(const WalkedAxes& axes, int64_t outputs, int64_t count, int elements, int element_bytes,
                       int multiprocessors)
    : columns(axes.ends_kept && count > 0) {
  shape.outputs = narrow(outputs);
  shape.count = count;
  shape.part = 1 / static_cast<double>(count);
  if (outputs == 0) return;
  const size_t operands = axes.kept.strides.size();
  Walk kept(operands), reduced(operands);
  Dims steps(operands, 0);
  if (count > 0) {  // else nothing is read
    kept = axes.kept;
    reduced = axes.reduced;
  }
  if (columns) {
    const int64_t beside = kept.sizes.back();
    steps = kept.take_inside();
    down(outputs / beside, beside / elements, count, elements * element_bytes, multiprocessors);
  } else {
    if (elements > 1) {
      reduced.sizes.back() /= elements;
      for (size_t k = 0; k < operands; ++k) {
        steps[k] = reduced.strides[k].back();
        reduced.strides[k].back() *= elements;
      }
    }
    along(outputs, count / elements, multiprocessors);
  }
  const auto put = [&](const void* data, size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    parameter.insert(parameter.end(), from, from + bytes);
  };
  put(&shape, sizeof shape);
  put(steps.data(), operands * sizeof(int64_t));
  for (const Walk* walk : {&kept, &reduced}) {
    const std::vector<std::byte> nest = nest_parameter(walk->sizes, walk->strides);
    put(nest.data(), nest.size());
  }
}

void ReduceForm::along(int64_t rows, int64_t length, int multiprocessors) {
  const RowLaunch launch = row_launch(rows, length, 16, reduce_threads, multiprocessors);
  shape.rows = narrow(rows);
  shape.lanes = launch.lanes;
  size = launch.size;
  split(length, launch.lanes, multiprocessors);
}

void ReduceForm::down(int64_t groups, int64_t chunks, int64_t length, int64_t chunk_bytes, int multiprocessors) {
  constexpr int64_t least_bytes = 64;  // beside each other: two sectors
  auto lanes = static_cast<int64_t>(std::min<uint64_t>(std::bit_ceil(static_cast<uint64_t>(chunks)), 32));
  while (lanes * chunk_bytes > least_bytes && lanes > 1 && groups * divide_up(chunks, lanes) < 2 * multiprocessors)
    lanes /= 2;
  const int64_t blocks = divide_up(chunks, lanes);
  shape.rows = narrow(groups);
  shape.columns = narrow(chunks);
  shape.lanes = narrow(lanes);
  shape.blocks = Divisor(narrow(blocks));
  size.threads = reduce_threads;
  size.blocks = narrow(groups * blocks);
  split(length, reduce_threads / lanes, multiprocessors);
}

// Several blocks for each result where one would go through more than `most_steps` and others were idle: then another
// launch is worth it.
void ReduceForm::split(int64_t length, int64_t threads, int multiprocessors) {
  constexpr int64_t most_steps = 48, least_steps = 8;
  const int64_t steps = divide_up(length, threads);
  int64_t per_split = std::max<int64_t>(length, 1);
  if (size.blocks < narrow(multiprocessors) && steps > most_steps) {
    const int64_t wanted = std::min(divide_up(2 * multiprocessors, size.blocks), divide_up(steps, least_steps));
    per_split = divide_up(steps, wanted) * threads;
  }
  splits = narrow(std::max<int64_t>(1, divide_up(length, per_split)));
  shape.length = narrow(length);
  shape.per_split = narrow(per_split);
  size.blocks_y = splits;
}

}  // namespace camshaft::cuda
