// The reference evaluation of non_max_suppression.
#include <algorithm>
#include <array>
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

// A rectangle that is turned: centre, size and angle.
class TurnedBox {
 public:
  explicit TurnedBox(const float* b)
      : x_(b[0]),
        y_(b[1]),
        half_width_(b[2] / 2.0),
        half_height_(b[3] / 2.0),
        cos_(std::cos(b[4])),
        sin_(std::sin(b[4])) {}

  double area() const { return 4 * half_width_ * half_height_; }

  /// Of what both cover: the corners of `other`, as this one sees them, cut off at its four sides.
  double common(const TurnedBox& other) const {
    const double apart = std::hypot(other.x_ - x_, other.y_ - y_);
    if (!(apart < reach() + other.reach())) return 0;
    // A side cuts a corner off, of which two points are left. Boxes of a few ulps are no longer convex once their
    // corners are rounded: each side may cross all lines between four, 6, 9 and 13 points every other time.
    std::array<Point, 24> shape{}, cut{};
    size_t count = 0;
    for (const auto& [right, up] : {Point{-1, -1}, Point{1, -1}, Point{1, 1}, Point{-1, 1}}) {
      const double along = right * other.half_width_, across = up * other.half_height_;
      const double dx = other.x_ + along * other.cos_ - across * other.sin_ - x_;
      const double dy = other.y_ + along * other.sin_ + across * other.cos_ - y_;
      shape[count++] = {dx * cos_ + dy * sin_, dy * cos_ - dx * sin_};
    }
    for (const bool is_across : {false, true})
      for (const double sign : {-1.0, 1.0}) {
        const auto beyond = [&](const Point& p) {
          return sign * (is_across ? p.y : p.x) - (is_across ? half_height_ : half_width_);
        };
        size_t kept = 0;
        for (size_t i = 0; i < count; ++i) {
          const Point &from = shape[i], &to = shape[(i + 1) % count];
          const double begin = beyond(from), end = beyond(to);
          if (begin <= 0) cut[kept++] = from;
          if ((begin < 0 && end > 0) || (begin > 0 && end < 0)) {
            const double part = begin / (begin - end);
            cut[kept++] = {from.x + part * (to.x - from.x), from.y + part * (to.y - from.y)};
          }
        }
        std::swap(shape, cut);
        count = kept;
      }
    double twice = 0;
    for (size_t i = 0; i < count; ++i) {
      const Point &a = shape[i], &b = shape[(i + 1) % count];
      twice += a.x * b.y - b.x * a.y;
    }
    return std::abs(twice) / 2;
  }

 private:
  struct Point {
    double x, y;
  };
  double reach() const { return std::hypot(half_width_, half_height_); }

  double x_, y_, half_width_, half_height_, cos_, sin_;
};

class KeptTurnedBoxes {
 public:
  void add(const TurnedBox& box) { boxes_.push_back(box); }
  bool overlap(const TurnedBox& box, float threshold) const {
    return std::any_of(boxes_.begin(), boxes_.end(), [&](const TurnedBox& kept) {
      const double common = kept.common(box), all = box.area() + kept.area() - common;
      return common > 0 && all > 0 && common / all > threshold;
    });
  }

 private:
  std::vector<TurnedBox> boxes_;
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
template <class Kept, class Read>
std::vector<int64_t> suppress(const Read& box_at, const float* scores, int64_t count, int64_t most, float iou,
                              const float* least_score) {
  Candidates candidates(scores, count, least_score, most);
  std::vector<int64_t> chosen;
  Kept kept;
  PacedCancellation cancellation;
  while (!candidates.empty() && static_cast<int64_t>(chosen.size()) < most) {
    cancellation.did(static_cast<int64_t>(chosen.size()) + 1);
    const int64_t index = candidates.take();
    const auto box = box_at(index);
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
  const bool are_turned = boxes.rank() == 3 && boxes.dims()[2] == 5;
  if (boxes.dims() != Dims{batch, count, are_turned ? 5 : 4})
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
      for (int64_t i = begin; i < end; ++i) {
        const float* const of_image = boxes.as<float>() + i / classes * count * boxes.dims()[2];
        const float* const of_class = scores.as<float>() + i * count;
        const auto turned = [&](int64_t box) { return TurnedBox(of_image + box * 5); };
        const auto upright = [&](int64_t box) { return read_box(of_image + box * 4, center_point_box); };
        chosen[static_cast<size_t>(i)] =
            are_turned ? suppress<KeptTurnedBoxes>(turned, of_class, count, most, iou, least_score)
                       : suppress<KeptBoxes>(upright, of_class, count, most, iou, least_score);
      }
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
