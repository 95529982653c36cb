#include "tools/precision_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

namespace camshaft::tools {

namespace {

constexpr double width = 640, height = 400, left = 80, right = 30, top = 50, bottom = 60;

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

/// Numbers to places, with some room on both sides.
class Axis {
 public:
  Axis(std::vector<double> numbers, double begin, double end) : begin_(begin), end_(end) {
    const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
    const double room = *most > *least ? (*most - *least) * 0.1 : std::max(std::fabs(*most) * 0.1, 1e-9);
    low_ = *least - room;
    high_ = *most + room;
  }
  double operator()(double number) const { return begin_ + (number - low_) / (high_ - low_) * (end_ - begin_); }
  /// Steps of 1, 2 or 5 times a power of ten, some four of them.
  std::vector<double> ticks() const {
    const double rough = (high_ - low_) / 4, power = std::pow(10, std::floor(std::log10(rough)));
    const double step = power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1);
    std::vector<double> ticks;
    for (double tick = std::ceil(low_ / step); tick * step <= high_; ++tick) ticks.push_back(tick * step);
    return ticks;
  }

 private:
  double begin_, end_, low_ = 0, high_ = 1;
};

std::string text_at(double x, double y, std::string_view anchor, const std::string& text, int size = 12) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y, anchor,
                     size, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2, style);
}

}  // namespace

std::string precision_curve(const PrecisionSearch& search, const ScoreDrop& most, const std::string& title) {
  const double least_score = most.least(search.points.back().score);
  std::vector<double> milliseconds, scores = {least_score};
  for (const PrecisionPoint& point : search.points) {
    milliseconds.push_back(point.seconds * 1e3);
    scores.push_back(point.score);
  }
  const Axis x(milliseconds, left, width - right), y(scores, height - bottom, top);
  constexpr std::string_view grid = "stroke=\"#ddd\"", border = "stroke=\"#333\"",
                             limit = "stroke=\"#b00\" stroke-dasharray=\"6 4\"";
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width, height);
  for (const double tick : x.ticks())
    svg += line(x(tick), top, x(tick), height - bottom, grid) +
           text_at(x(tick), height - bottom + 18, "middle", fmt::format("{:g}", tick));
  for (const double tick : y.ticks())
    svg += line(left, y(tick), width - right, y(tick), grid) +
           text_at(left - 8, y(tick) + 4, "end", fmt::format("{:g}", tick));
  svg += line(left, height - bottom, width - right, height - bottom, border) +
         line(left, top, left, height - bottom, border);
  svg += line(left, y(least_score), width - right, y(least_score), limit) +
         text_at(width - right, y(least_score) - 6, "end", fmt::format("at most {} below", most.text()), 11);
  for (const PrecisionPoint& point : search.points) {
    const double at_x = x(point.seconds * 1e3), at_y = y(point.score);
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" stroke=\"#06c\" stroke-width=\"2\" fill=\"{}\"/>\n",
                       at_x, at_y, point.float_layers == search.float_layers ? "#06c" : "white");
    svg += text_at(at_x, at_y - 10, "middle", fmt::format("{}", point.float_layers), 11);
  }
  svg += text_at(left, 24, "start", title, 14);
  svg +=
      text_at(left, 42, "start",
              fmt::format("beside each point: how many of {} layers are in floating point", search.layers.size()), 11);
  svg += text_at((left + width - right) / 2, height - 18, "middle", "time of a run, ms");
  svg += fmt::format(
      "<text transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\" font-size=\"12\">score</text>\n",
      (top + height - bottom) / 2);
  return svg + "</svg>\n";
}

}  // namespace camshaft::tools
