// A chart of lines over named places, drawn as SVG by hand. Pure.
//
//   Decode, tokens/s
//   60 ┤          ●
//   40 ┤    ●     ┊ spread        The y axis begins at 0, or has powers of ten where values lie far apart.
//   20 ┤ ●
//    0 ┼─────────────
//      TP 1  TP 2  TP 4
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launcher {

struct ChartPoint {
  size_t place = 0;  // on the x axis
  double value = 0.0, min = 0.0, max = 0.0;
};

struct ChartLine {
  enum class Kind {
    kMeasured,   // line, markers, spread bars
    kPredicted,  // dashed, hollow markers
    kReference,  // grey, dotted, no markers
  };

  std::string name;
  size_t look = 0;  // colour and marker
  Kind kind = Kind::kMeasured;
  std::vector<ChartPoint> points;  // places ascend
};

struct LineChart {
  enum class Numbers { kPlain, kPercent };
  enum class Scale { kFitting, kFromZero };  // logarithmic where values lie far apart, or never

  std::string title;
  std::vector<std::string> places;
  std::vector<ChartLine> lines;
  Numbers numbers = Numbers::kPlain;
  Scale scale = Scale::kFitting;
};

/// The y axis: what it shows and where its lines are.
struct ChartAxis {
  double low = 0.0, high = 1.0;
  bool is_logarithmic = false;
  std::vector<double> ticks;

  /// 0 at the bottom, 1 at the top.
  double position(double value) const;
};

/// An axis that shows every value from `least` (above 0) to `most`; logarithmic when they are far apart.
ChartAxis axis_for(double least, double most);

/// `text` for use between tags and in attributes, without what XML cannot hold.
std::string escaped(std::string_view text);

/// An <svg> element without references to anything.
std::string to_svg(const LineChart& chart);

/// The line and marker of a look, for a legend: a small <svg> element.
std::string legend_mark(size_t look, ChartLine::Kind kind);

}  // namespace lockstep::launcher
