#include <fmt/format.h>

#include <algorithm>

#include "launcher/measure/doctor/judgements.h"
#include "runtime/core/short_number.h"

namespace lockstep::launcher {
namespace {

constexpr double kMostStolen = 0.05;  // of the time

}  // namespace

Check judge_machine(const DoctorReport& report) {
  double read = 0.0, slowest = 0.0;
  for (const RankLine& line : report.ranks) {
    read += *line.read_bytes_per_s;
    slowest = slowest == 0.0 ? *line.read_bytes_per_s : std::min(slowest, *line.read_bytes_per_s);
  }
  const LimitsLine& together = *report.limits;
  Check check;
  check.found = fmt::format("all ranks together read {} GB/s and compute {} GFLOP/s ({})",
                            short_number(together.read_bytes_per_s / 1e9), short_number(together.flops_per_s / 1e9),
                            together.precision);
  const auto most = std::ranges::max_element(report.ranks, {}, &RankLine::stolen_share);
  if (most->stolen_share > kMostStolen) {
    check.status = CheckStatus::kWarning;
    check.found += fmt::format("; other machines took {:.0f} % of the time of the cores of {}",
                               100 * most->stolen_share, most->host);
    check.expected = "cores that no other virtual machine uses";
    check.fix = "choose an instance whose cores are not shared, or expect figures that vary";
  }
  if (report.ranks.size() == 1) return check;
  check.found += fmt::format(
      "; the slowest rank alone reads {:.3g} GB/s, and together they reach {:.0f} % of what they "
      "reach alone",
      slowest / 1e9, 100 * together.read_bytes_per_s / read);
  return check;
}

}  // namespace lockstep::launcher
