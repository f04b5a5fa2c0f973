// The report of a study as one HTML page that refers to nothing outside itself. Pure.
//
//   sweep_page.html    title, verdicts, tables        written here: they are there without scripts, too
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
