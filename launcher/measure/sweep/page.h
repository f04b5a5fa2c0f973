// The report of a study as one self-contained HTML page. Pure.
//
//   sweep_page.html    title, verdicts, tables        written here: visible without scripts
//                      <script id="study">            results.json
//                      <script>                       draws the charts from it
#pragma once

#include <string>
#include <vector>

#include "launcher/measure/sweep/results.h"

namespace lockstep::launcher {

/// report.html.
std::string to_page(const Study& study, const std::vector<std::string>& verdicts);

}  // namespace lockstep::launcher
