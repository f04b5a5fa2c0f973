// The report of a study as one HTML page that needs nothing else: styles and pictures inside, no scripts. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/measure/sweep/line_chart.h"
#include "launcher/measure/sweep/results.h"

namespace lockstep::launcher {

/// The charts of a study: speeds, times, speed-up, efficiency and shares over the degree, a line for each series.
std::vector<LineChart> charts_of(const Study& study);

/// report.html.
std::string to_page(const Study& study, const std::vector<std::string>& verdicts);

}  // namespace lockstep::launcher
