// The reference evaluation of pairwise_distance, support_vector_vote and score_transform.
#include "ir/ops/support_vectors.h"

#include <algorithm>
#include <cmath>

#include "base/pieces.h"
#include "base/thread_pool.h"
#include "ir/ops/shape_rules.h"
#include "reference/ml/score_transform.h"

namespace camshaft::ops {

namespace {

template <class T>
void distances(const Tensor& x, const Tensor& y, Tensor& out, ThreadPool& pool) {
  const int64_t n = x.dims()[0], m = y.dims()[0], features = x.dims()[1];
  T* to = out.as_mutable<T>();
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, m * features));
  for_pieces(pool, n, grain, [&](int64_t begin, int64_t end) {
    PacedCancellation cancellation;
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < m; ++j) {
        cancellation.did(features + 1);
        const T* a = x.as<T>() + i * features;
        const T* b = y.as<T>() + j * features;
        T sums[8] = {};  // independent, so that the compiler can use vectors
        int64_t f = 0;
        for (; f + 8 <= features; f += 8)
          for (int64_t lane = 0; lane < 8; ++lane) {
            const T d = a[f + lane] - b[f + lane];
            sums[lane] += d * d;
          }
        for (; f < features; ++f) sums[0] += (a[f] - b[f]) * (a[f] - b[f]);
        to[i * m + j] = ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
      }
  });
}

/// Platt's probabilities r[i·k + j] of class i against j as one distribution.
void couple(int64_t classes, const std::vector<float>& r, std::vector<float>& q, std::vector<float>& qp, float* p) {
  const auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>(i * classes + j); };
  std::fill(q.begin(), q.end(), 0.F);
  for (int64_t i = 0; i < classes; ++i) {
    p[i] = 1 / static_cast<float>(classes);
    for (int64_t j = 0; j < classes; ++j) {
      if (i == j) continue;
      q[at(i, i)] += r[at(j, i)] * r[at(j, i)];
      q[at(i, j)] = -r[at(j, i)] * r[at(i, j)];
    }
  }
  const float enough = 0.005F / static_cast<float>(classes);
  for (int iteration = 0; iteration < 100; ++iteration) {
    cancellation_point();
    float pqp = 0, worst = 0;
    for (int64_t i = 0; i < classes; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < classes; ++j) sum += q[at(i, j)] * p[j];
      qp[static_cast<size_t>(i)] = sum;
      pqp += p[i] * sum;
    }
    for (int64_t i = 0; i < classes; ++i) worst = std::max(worst, std::abs(qp[static_cast<size_t>(i)] - pqp));
    if (worst < enough) return;
    for (int64_t i = 0; i < classes; ++i) {
      const float diagonal = q[at(i, i)], here = qp[static_cast<size_t>(i)];
      const float step = (pqp - here) / diagonal;
      p[i] += step;
      pqp = (pqp + step * (step * diagonal + 2 * here)) / (1 + step) / (1 + step);
      for (int64_t j = 0; j < classes; ++j) {
        qp[static_cast<size_t>(j)] = (qp[static_cast<size_t>(j)] + step * q[at(i, j)]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
}

}  // namespace

std::vector<Tensor> PairwiseDistance::evaluate(const EvalContext& context) const {
  const Tensor &x = context.input(0), &y = context.input(1);
  if (x.dims()[1] != y.dims()[1]) fail_rule("distances of rows with {} and {} elements", x.dims()[1], y.dims()[1]);
  Tensor out(x.dtype(), {x.dims()[0], y.dims()[0]});
  if (out.size() == 0) return {std::move(out)};
  x.dtype() == DType::f64 ? distances<double>(x, y, out, context.pool) : distances<float>(x, y, out, context.pool);
  return {std::move(out)};
}

std::vector<Tensor> SupportVectorVote::evaluate(const EvalContext& context) const {
  const auto classes = static_cast<int64_t>(vectors_per_class.size());
  const int64_t pairs = classes * (classes - 1) / 2;
  const int64_t rows = context.input(0).dims()[0], vectors = context.input(0).dims()[1];
  std::vector<int64_t> first(static_cast<size_t>(classes) + 1);
  for (size_t k = 0; k < vectors_per_class.size(); ++k) first[k + 1] = first[k] + vectors_per_class[k];
  const float* coefficients = context.input(1).as<float>();
  const float* rho = context.input(2).as<float>();
  const bool has_probabilities = context.has(3);
  const int64_t width = has_probabilities ? classes : pairs;
  Tensor chosen(DType::i64, {rows}), scores(DType::f32, {rows, width});
  int64_t* choice = chosen.as_mutable<int64_t>();
  float* out = scores.as_mutable<float>();
  const int64_t work = std::max<int64_t>(1, vectors * classes);
  for_pieces(context.pool, rows, std::max<int64_t>(1, (1 << 15) / work), [&](int64_t begin, int64_t end) {
    std::vector<float> decisions(static_cast<size_t>(pairs)), qp(static_cast<size_t>(classes));
    std::vector<float> r(has_probabilities ? static_cast<size_t>(classes * classes) : 0), q(r.size());
    std::vector<int64_t> votes(static_cast<size_t>(classes));
    for (int64_t row = begin; row < end; ++row) {
      cancellation_point();
      const float* kernel = context.input(0).as<float>() + row * vectors;
      std::fill(votes.begin(), votes.end(), 0);
      size_t pair = 0;
      for (int64_t i = 0; i < classes; ++i)
        for (int64_t j = i + 1; j < classes; ++j, ++pair) {
          const auto dot = [&](int64_t line, int64_t of) {
            double sum = 0;
            for (int64_t v = first[static_cast<size_t>(of)]; v < first[static_cast<size_t>(of) + 1]; ++v)
              sum += double{coefficients[line * vectors + v]} * kernel[v];
            return sum;
          };
          const double sum = dot(j - 1, i) + dot(i, j) + rho[pair];
          decisions[pair] = static_cast<float>(sum);
          ++votes[static_cast<size_t>(sum > 0 ? i : j)];
        }
      choice[row] = std::max_element(votes.begin(), votes.end()) - votes.begin();
      if (!has_probabilities) {
        std::copy(decisions.begin(), decisions.end(), out + row * width);
        continue;
      }
      pair = 0;
      for (int64_t i = 0; i < classes; ++i)
        for (int64_t j = i + 1; j < classes; ++j, ++pair) {
          const float a = context.input(3).as<float>()[pair], b = context.input(4).as<float>()[pair];
          const float p = std::clamp(1 - logistic_of(decisions[pair] * a + b), 1e-7F, 1 - 1e-7F);
          r[static_cast<size_t>(i * classes + j)] = p;
          r[static_cast<size_t>(j * classes + i)] = 1 - p;
        }
      couple(classes, r, q, qp, out + row * width);
    }
  });
  return {std::move(chosen), std::move(scores)};
}

std::vector<Tensor> ScoreTransform::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  Tensor out = Tensor::of<float>(DType::f32, x.dims(), std::vector<float>(x.as<float>(), x.as<float>() + x.size()));
  const int64_t width = x.dims().back(), rows = width == 0 ? 0 : x.size() / width;
  float* scores = out.as_mutable<float>();
  PacedCancellation cancellation;
  for (int64_t r = 0; r < rows; ++r) {
    cancellation.did(width);
    transform_scores(transform, scores + r * width, width);
  }
  return {std::move(out)};
}

}  // namespace camshaft::ops
