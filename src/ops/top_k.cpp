// The k largest or smallest along an axis, and non-maximum suppression: both sort candidates.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/thread_pool.h"
#include "ops/element_io.h"
#include "ops/elements.h"
#include "ops/select.h"
#include "ops/shape_rules.h"

namespace camshaft::ops {

namespace {

template <class T>
struct Ranked {
  T value;
  int64_t index;
};

// A strict weak order with NaN above everything; the lower index first among equals.
template <class T>
bool comes_first(const Ranked<T>& a, const Ranked<T>& b, bool largest) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan || b_nan) return a_nan == b_nan ? a.index < b.index : a_nan == largest;
  if (a.value == b.value) return a.index < b.index;
  return (a.value > b.value) == largest;
}

template <class T>
void select_first(std::vector<Ranked<T>>& row, int64_t k, bool largest) {
  const auto before = [largest](const Ranked<T>& a, const Ranked<T>& b) { return comes_first(a, b, largest); };
  const auto middle = row.begin() + k;
  // A heap of k elements is quickest while k is small; it costs log k an element.
  if (k * 16 < static_cast<int64_t>(row.size())) {
    std::partial_sort(row.begin(), middle, row.end(), before);
    return;
  }
  if (middle != row.end()) std::nth_element(row.begin(), middle, row.end(), before);
  std::sort(row.begin(), middle, before);
}

}  // namespace

std::vector<Inferred> TopK::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  check_axis(axis, context.rank(0));
  if (x.dtype == DType::string || x.dtype == DType::boolean)
    fail_rule("top_k of {} is not possible", to_string(x.dtype));
  check_index_dtype(context.dtype(1), "k");
  if (context.rank(1) > 1 || (context.rank(1) == 1 && provably_different(context.shape(1)[0], 1)))
    fail_rule("k must be one number, not {}", to_string(context.type(1)));
  Shape shape = x.shape;
  Dim& size = shape[static_cast<size_t>(axis)];
  const auto known = known_content(context, 1);
  Dim k = known && known->size() == 1 ? known->front() : context.fresh(0, static_cast<size_t>(axis));
  if (const auto n = k.as_constant()) {
    const auto most = size.upper_bound();
    if (*n < 0 || (most && *n > *most))
      fail_rule("the {} elements asked for are not among the {} of axis {}", *n, size.str(), axis);
  }
  size = std::move(k);
  return {Inferred{{x.dtype, shape}}, Inferred{{DType::i64, shape}}};
}

std::vector<Tensor> TopK::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const auto at = static_cast<size_t>(axis);
  const int64_t size = x.dims().at(at);
  const std::vector<int64_t> asked = context.input(1).to_ints();
  if (asked.size() != 1) fail_rule("k must be one number, not {}", asked.size());
  const int64_t k = asked[0];
  if (k < 0 || k > size) fail_rule("the {} elements asked for are not among the {} of axis {}", k, size, axis);
  const int64_t inner = product(x.dims(), at + 1, x.dims().size()), lines = product(x.dims(), 0, at) * inner;
  Dims dims = x.dims();
  dims[at] = k;
  Tensor values(x.dtype(), dims), indices(DType::i64, dims);
  std::byte* to = values.mutable_data();
  auto* to_index = indices.as_mutable<int64_t>();
  if (values.size() == 0) return {values, indices};
  // Two elements of a 4-bit type share a byte: no threads there.
  const int64_t grain = bit_width(x.dtype()) < 8 ? lines : std::max<int64_t>(1, 4096 / std::max<int64_t>(size, 1));
  with_wide_type(x.dtype(), [&]<class T>(const T&) {
    context.pool.parallel_for(lines, grain, [&](int64_t begin, int64_t end) {
      std::vector<T> line(static_cast<size_t>(size));
      std::vector<Ranked<T>> row(static_cast<size_t>(size));
      for (int64_t l = begin; l < end; ++l) {
        const int64_t outer = l / inner, column = l % inner;
        load_elements(x.dtype(), x.data(), outer * size * inner + column, inner, size, line.data());
        for (int64_t i = 0; i < size; ++i) row[static_cast<size_t>(i)] = {line[static_cast<size_t>(i)], i};
        select_first(row, k, largest);
        const int64_t first = outer * k * inner + column;
        for (int64_t i = 0; i < k; ++i) {
          line[static_cast<size_t>(i)] = row[static_cast<size_t>(i)].value;
          to_index[first + i * inner] = row[static_cast<size_t>(i)].index;
        }
        store_elements(x.dtype(), to, first, inner, k, line.data());
      }
    });
  });
  return {values, indices};
}

namespace {

struct Box {
  float top, left, bottom, right, area;
};

Box read_box(const float* b, bool center_point_box) {
  Box box;
  if (center_point_box) {
    const float half_width = b[2] / 2, half_height = b[3] / 2;
    box = {b[1] - half_height, b[0] - half_width, b[1] + half_height, b[0] + half_width, 0};
  } else {
    box = {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3]), 0};
  }
  box.area = (box.right - box.left) * (box.bottom - box.top);
  return box;
}

// The boxes chosen so far, a list for each field: without branches, and several at a time, a box is held against
// thousands of them (SSD300 of torchvision spent 1.2 s here, and now 0.5).
class KeptBoxes {
 public:
  void add(const Box& box) {
    top_.push_back(box.top);
    left_.push_back(box.left);
    bottom_.push_back(box.bottom);
    right_.push_back(box.right);
    area_.push_back(box.area);
  }

  /// Whether the box shares more than `threshold` with one of them, of what both cover.
  bool overlap(const Box& box, float threshold) const {
    constexpr size_t piece = 64;
    for (size_t begin = 0; begin < area_.size(); begin += piece)
      if (overlaps_one_of(box, threshold, begin, std::min(begin + piece, area_.size()))) return true;
    return false;
  }

 private:
  bool overlaps_one_of(const Box& box, float threshold, size_t begin, size_t end) const {
    int found = 0;
    for (size_t i = begin; i < end; ++i) {
      const float width = std::min(box.right, right_[i]) - std::max(box.left, left_[i]);
      const float height = std::min(box.bottom, bottom_[i]) - std::max(box.top, top_[i]);
      const float common = width * height, all = box.area + area_[i] - common;
      found |= (width > 0) & (height > 0) & (common > 0) & (box.area > 0) & (area_[i] > 0) & (all > 0) &
               (common / all > threshold);
    }
    return found != 0;
  }

  std::vector<float> top_, left_, bottom_, right_, area_;
};

// The chosen boxes of one class of one image.
std::vector<int64_t> suppress(const float* boxes, const float* scores, int64_t count, int64_t most, float iou,
                              const float* least_score, bool center_point_box) {
  std::vector<Ranked<float>> order;
  for (int64_t i = 0; i < count; ++i)
    if (!least_score || scores[i] > *least_score) order.push_back({scores[i], i});
  std::sort(order.begin(), order.end(), [](const Ranked<float>& a, const Ranked<float>& b) {
    const bool a_nan = std::isnan(a.value), b_nan = std::isnan(b.value);
    if (a_nan != b_nan) return b_nan;  // a score that is no number comes last
    return a_nan || a.value == b.value ? a.index < b.index : a.value > b.value;
  });
  std::vector<int64_t> chosen;
  KeptBoxes kept;
  for (const Ranked<float>& candidate : order) {
    if (static_cast<int64_t>(chosen.size()) >= most) break;
    const Box box = read_box(boxes + candidate.index * 4, center_point_box);
    if (kept.overlap(box, iou)) continue;
    kept.add(box);
    chosen.push_back(candidate.index);
  }
  return chosen;
}

}  // namespace

std::vector<Inferred> NonMaxSuppression::infer(const InferContext& context) const {
  if (context.dtype(0) != DType::f32 || context.dtype(1) != DType::f32)
    fail_rule("boxes and scores must be f32, not {} and {}", to_string(context.dtype(0)), to_string(context.dtype(1)));
  if (context.rank(0) != 3 || context.rank(1) != 3 || provably_different(context.shape(0)[2], 4))
    fail_rule("boxes must be [batch, n, 4] and scores [batch, classes, n], not {} and {}", to_string(context.type(0)),
              to_string(context.type(1)));
  same_size(context.shape(0)[0], context.shape(1)[0], "batch of boxes and scores", 0);
  same_size(context.shape(0)[1], context.shape(1)[2], "number of boxes and scores", 1);
  if (context.has(2)) check_index_dtype(context.dtype(2), "the most boxes a class");
  for (const size_t i : {size_t{3}, size_t{4}})
    if (context.has(i) && context.dtype(i) != DType::f32)
      fail_rule("the thresholds must be f32, not {}", to_string(context.dtype(i)));
  return {Inferred{{DType::i64, {context.fresh(0, 0), 3}}}};
}

std::vector<Tensor> NonMaxSuppression::evaluate(const EvalContext& context) const {
  const Tensor &boxes = context.input(0), &scores = context.input(1);
  const int64_t batch = scores.dims()[0], classes = scores.dims()[1], count = scores.dims()[2];
  if (boxes.dims() != Dims{batch, count, 4})
    fail_rule("boxes of shape {} do not fit scores of shape {}", to_string(boxes.dims()), to_string(scores.dims()));
  const auto given = [&](size_t i) { return context.has(i) && context.input(i).size() > 0; };
  const int64_t most = given(2) ? context.input(2).to_ints()[0] : 0;
  const float iou = given(3) ? context.input(3).as<float>()[0] : 0;
  if (!(iou >= 0 && iou <= 1)) fail_rule("the IoU threshold must lie between 0 and 1, it is {}", iou);
  const float* least_score = given(4) ? context.input(4).as<float>() : nullptr;
  if (scores.size() == 0) return {Tensor(DType::i64, {0, 3})};  // of any number of classes
  std::vector<std::vector<int64_t>> chosen(static_cast<size_t>(batch * classes));
  if (most > 0)
    context.pool.parallel_for(batch * classes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        chosen[static_cast<size_t>(i)] =
            suppress(boxes.as<float>() + i / classes * count * 4, scores.as<float>() + i * count, count, most, iou,
                     least_score, center_point_box);
    });
  int64_t total = 0;
  for (const auto& list : chosen) total += static_cast<int64_t>(list.size());
  Tensor out(DType::i64, {total, 3});
  auto* to = out.as_mutable<int64_t>();
  for (size_t i = 0; i < chosen.size(); ++i)
    for (const int64_t box : chosen[i]) {
      *to++ = static_cast<int64_t>(i) / classes;
      *to++ = static_cast<int64_t>(i) % classes;
      *to++ = box;
    }
  return {out};
}

}  // namespace camshaft::ops
