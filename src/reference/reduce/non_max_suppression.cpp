// The reference evaluation of non_max_suppression.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/pieces.h"
#include "ir/ops/select.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

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

// The order of scores as one number: larger scores first, of equal ones the first box, what is no number last.
uint64_t rank_of(float score, int64_t index) {
  uint32_t bits = 0;
  if (std::isnan(score)) {
    bits = std::numeric_limits<uint32_t>::max();
  } else {
    const uint32_t raw = std::bit_cast<uint32_t>(score + 0.0f);  // -0 counts as 0
    bits = raw >> 31 ? raw : 0x7fffffffu - raw;
  }
  return uint64_t{bits} << 32 | static_cast<uint32_t>(index);
}

// Boxes by rank, a batch at a time: few are asked for until enough are chosen. 100 of 25,000 took 1.3 ms when all were
// sorted, and 0.31 from a heap.
class Candidates {
 public:
  Candidates(const float* scores, int64_t count, const float* least_score, int64_t most) {
    left_.reserve(static_cast<size_t>(count));
    PacedCancellation cancellation;
    for (int64_t i = 0; i < count; ++i) {
      cancellation.did(1);
      if (!least_score || scores[i] > *least_score) left_.push_back(rank_of(scores[i], i));
    }
    batch_ = static_cast<size_t>(4 * std::clamp<int64_t>(most, 16, 1 << 18));
  }

  bool empty() const { return next_ == left_.size(); }

  int64_t take() {
    if (next_ == sorted_) sort_batch();
    return static_cast<int64_t>(left_[next_++] & 0xffffffffu);
  }

 private:
  // Those up to the rank that about a batch comes before; ranks are counted by their first bits.
  void sort_batch() {
    const auto begin = left_.begin() + static_cast<int64_t>(next_);
    auto end = left_.end();
    if (left_.size() - next_ > 2 * batch_) {
      constexpr int bits = 12;
      std::vector<uint32_t> counts(size_t{1} << bits);
      const auto [first, last] = std::minmax_element(begin, end);
      const uint64_t lowest = *first;
      const int shift = std::max(0, 64 - std::countl_zero(*last - lowest) - bits);
      for (auto rank = begin; rank != end; ++rank) ++counts[(*rank - lowest) >> shift];
      size_t bucket = 0, taken = counts[0];
      while (taken < batch_) taken += counts[++bucket];
      end = std::partition(begin, end, [&](uint64_t rank) { return (rank - lowest) >> shift <= bucket; });
      // Many may be equal, or nearly so.
      if (static_cast<size_t>(end - begin) > 4 * batch_) {
        const auto past = begin + static_cast<int64_t>(batch_);
        std::nth_element(begin, past, end);
        end = past;
      }
    }
    std::sort(begin, end);
    sorted_ = static_cast<size_t>(end - left_.begin());
    batch_ *= 2;
  }

  std::vector<uint64_t> left_;  // ranks: those taken, sorted ones, and all others
  size_t next_ = 0, sorted_ = 0, batch_ = 0;
};

// The chosen boxes of one class of one image.
std::vector<int64_t> suppress(const float* boxes, const float* scores, int64_t count, int64_t most, float iou,
                              const float* least_score, bool center_point_box) {
  Candidates candidates(scores, count, least_score, most);
  std::vector<int64_t> chosen;
  KeptBoxes kept;
  PacedCancellation cancellation;
  while (!candidates.empty() && static_cast<int64_t>(chosen.size()) < most) {
    cancellation.did(static_cast<int64_t>(chosen.size()) + 1);
    const int64_t index = candidates.take();
    const Box box = read_box(boxes + index * 4, center_point_box);
    if (kept.overlap(box, iou)) continue;
    kept.add(box);
    chosen.push_back(index);
  }
  return chosen;
}

}  // namespace

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
  if (count > int64_t{1} << 32) fail_rule("{} boxes, more than 2^32", count);
  if (scores.size() == 0) return {Tensor(DType::i64, {0, 3})};  // of any number of classes
  std::vector<std::vector<int64_t>> chosen(static_cast<size_t>(batch * classes));
  if (most > 0)
    for_pieces(context.pool, batch * classes, 1, [&](int64_t begin, int64_t end) {
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
