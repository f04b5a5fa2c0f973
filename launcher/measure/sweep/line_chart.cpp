#include "launcher/measure/sweep/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::launcher {
namespace {

constexpr double kWidth = 460, kHeight = 270;
constexpr double kLeft = 58, kRight = 446, kTop = 38, kBottom = 236;
constexpr double kSideStep = 5;   // between series at one place, so that their bars do not hide one another
constexpr double kFarApart = 12;  // most over least, from which the axis is logarithmic
constexpr int kAboutTicks = 5;

/// Colours that people with any colour vision tell apart (Okabe and Ito, "Color Universal Design", 2008).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#222222"};
constexpr const char* kGrey = "#8a8a8a";

const char* colour_of(const ChartLine& line) {
  return line.kind == ChartLine::Kind::kReference ? kGrey : kColours[line.look % std::size(kColours)];
}

/// 1, 2 or 5 times a power of ten, at least `value`.
double round_up(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (value <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// A marker whose shape tells looks apart without colour.
std::string marker(size_t look, double x, double y, const char* colour, bool hollow) {
  const std::string paint = hollow ? fmt::format("fill=\"#fff\" stroke=\"{}\" stroke-width=\"1.5\"", colour)
                                   : fmt::format("fill=\"{}\"", colour);
  switch (look % 4) {
    case 0: return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" {}>", x, y, paint);
    case 1: return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"7\" height=\"7\" {}>", x - 3.5, y - 3.5, paint);
    case 2: return fmt::format("<path d=\"M{:.1f} {:.1f}l4.5 8h-9z\" {}>", x, y - 5, paint);
    default: return fmt::format("<path d=\"M{:.1f} {:.1f}l5 5l-5 5l-5 -5z\" {}>", x, y - 5, paint);
  }
}

const char* closing_tag(size_t look) {
  switch (look % 4) {
    case 0: return "</circle>";
    case 1: return "</rect>";
    default: return "</path>";
  }
}

const char* dashes(ChartLine::Kind kind) {
  switch (kind) {
    case ChartLine::Kind::kMeasured: return "";
    case ChartLine::Kind::kPredicted: return " stroke-dasharray=\"6 4\"";
    case ChartLine::Kind::kReference: return " stroke-dasharray=\"2 3\"";
  }
  return "";
}

std::string number(double value, LineChart::Numbers numbers) {
  if (numbers == LineChart::Numbers::kPercent) return fmt::format("{:.3g} %", value * 100);
  if (value >= 1e6) return fmt::format("{:.3g}M", value * 1e-6);
  if (value >= 1e4) return fmt::format("{:.3g}k", value * 1e-3);
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

/// Everything that is drawn for one chart.
class Drawing {
 public:
  explicit Drawing(const LineChart& chart) : chart_(chart) {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (const ChartLine& line : chart.lines) {
      for (const ChartPoint& point : line.points) {
        most = std::max({most, point.max, point.value});
        if (point.value > 0) least = std::min(least, point.min > 0 ? point.min : point.value);
      }
    }
    axis_ = axis_for(chart.scale == LineChart::Scale::kFromZero ? most : std::min(least, most), most);
    const auto measured = [](const ChartLine& line) { return line.kind == ChartLine::Kind::kMeasured; };
    for (const ChartLine& line : chart.lines) {
      if (measured(line)) looks_ = std::max(looks_, line.look + 1);
    }
  }

  std::string text() {
    svg_ =
        fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
                    kWidth, kHeight, escaped(chart_.title));
    svg_ += fmt::format("<text x=\"4\" y=\"18\" class=\"title\" font-weight=\"bold\" font-size=\"14\">{}</text>\n",
                        escaped(chart_.title));
    draw_axes();
    for (const ChartLine& line : chart_.lines) draw_path(line);
    for (const ChartLine& line : chart_.lines) draw_points(line);
    return svg_ + "</svg>\n";
  }

 private:
  double x_of(size_t place, const ChartLine* line) const {
    const double step = (kRight - kLeft) / static_cast<double>(std::max<size_t>(chart_.places.size(), 1));
    double x = kLeft + step * (static_cast<double>(place) + 0.5);
    if (line != nullptr && line->kind != ChartLine::Kind::kReference) {
      const double room = std::min(kSideStep, step * 0.6 / static_cast<double>(std::max<size_t>(looks_, 1)));
      x += (static_cast<double>(line->look) - (static_cast<double>(looks_) - 1) / 2) * room;
    }
    return x;
  }
  double y_of(double value) const { return kBottom - axis_.position(value) * (kBottom - kTop); }

  void draw_axes();
  void draw_path(const ChartLine& line);
  void draw_points(const ChartLine& line);

  const LineChart& chart_;
  ChartAxis axis_;
  size_t looks_ = 0;  // measured lines side by side at one place
  std::string svg_;
};

void Drawing::draw_axes() {
  for (const double tick : axis_.ticks) {
    svg_ += fmt::format("<path d=\"M{} {:.1f}H{}\" stroke=\"#e2e2e2\" fill=\"none\"/>", kLeft, y_of(tick), kRight);
    svg_ += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\" font-size=\"12\" fill=\"#444\">{}</text>\n",
                        kLeft - 8, y_of(tick) + 4, number(tick, chart_.numbers));
  }
  svg_ += fmt::format("<path d=\"M{} {:.1f}H{}\" stroke=\"#444\" fill=\"none\"/>\n", kLeft, kBottom, kRight);
  for (size_t place = 0; place < chart_.places.size(); ++place) {
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\" font-size=\"12\" fill=\"#444\">{}</text>\n",
                        x_of(place, nullptr), kBottom + 19, escaped(chart_.places[place]));
  }
}

void Drawing::draw_path(const ChartLine& line) {
  if (line.points.size() < 2) return;
  std::string path;
  for (const ChartPoint& point : line.points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x_of(point.place, &line), y_of(point.value));
  }
  svg_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", path, colour_of(line),
                      line.kind == ChartLine::Kind::kMeasured ? 2 : 1.5, dashes(line.kind));
}

void Drawing::draw_points(const ChartLine& line) {
  if (line.kind == ChartLine::Kind::kReference) return;
  for (const ChartPoint& point : line.points) {
    const double x = x_of(point.place, &line);
    if (line.kind == ChartLine::Kind::kMeasured && point.max > point.min) {
      svg_ += fmt::format("<path d=\"M{0:.1f} {3:.1f}h6m-3 0V{2:.1f}m-3 0h6\" stroke=\"{1}\" fill=\"none\"/>", x - 3,
                          colour_of(line), y_of(point.min), y_of(point.max));
    }
    const std::string spread = point.max > point.min ? fmt::format(" ({} to {})", number(point.min, chart_.numbers),
                                                                   number(point.max, chart_.numbers))
                                                     : "";
    svg_ +=
        fmt::format("{}<title>{}, {}: {}{}</title>{}\n",
                    marker(line.look, x, y_of(point.value), colour_of(line), line.kind == ChartLine::Kind::kPredicted),
                    escaped(line.name), escaped(chart_.places.at(point.place)), number(point.value, chart_.numbers),
                    spread, closing_tag(line.look));
  }
}

}  // namespace

double ChartAxis::position(double value) const {
  if (!is_logarithmic) return (value - low) / (high - low);
  return std::log(std::max(value, low) / low) / std::log(high / low);
}

ChartAxis axis_for(double least, double most) {
  ChartAxis axis;
  if (!(most > 0) || !std::isfinite(most)) return {.ticks = {0, 1}};
  if (least > 0 && most > kFarApart * least) {
    axis.is_logarithmic = true;
    const double power = std::pow(10.0, std::floor(std::log10(least)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power <= least * (1 + 1e-9)) axis.low = factor * power;
    }
    axis.high = round_up(most);
    for (double tick = axis.low; tick <= axis.high * (1 + 1e-9); tick = round_up(tick * 1.5))
      axis.ticks.push_back(tick);
    return axis;
  }
  const double step = round_up(most / kAboutTicks);
  axis.high = std::ceil(most / step - 1e-9) * step;
  for (int i = 0; i * step <= axis.high * (1 + 1e-9); ++i) axis.ticks.push_back(i * step);
  return axis;
}

std::string escaped(std::string_view text) {
  std::string clean;
  for (const char c : text) {
    switch (c) {
      case '&': clean += "&amp;"; break;
      case '<': clean += "&lt;"; break;
      case '>': clean += "&gt;"; break;
      case '"': clean += "&quot;"; break;
      case '\'': clean += "&#39;"; break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') clean += c;
    }
  }
  return clean;
}

std::string to_svg(const LineChart& chart) { return Drawing(chart).text(); }

std::string legend_mark(size_t look, ChartLine::Kind kind) {
  const ChartLine line{.name = "", .look = look, .kind = kind, .points = {}};
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 34 14\" width=\"34\" height=\"14\" aria-hidden=\"true\">"
      "<path d=\"M1 7H33\" stroke=\"{}\" stroke-width=\"2\" fill=\"none\"{}/>",
      colour_of(line), dashes(kind));
  if (kind != ChartLine::Kind::kReference) {
    svg += marker(look, 17, 7, colour_of(line), kind == ChartLine::Kind::kPredicted) + closing_tag(look);
  }
  return svg + "</svg>";
}

}  // namespace lockstep::launcher
