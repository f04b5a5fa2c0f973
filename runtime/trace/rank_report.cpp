#include "runtime/trace/rank_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::trace {
namespace {

/// Spans with the same name are added.
std::vector<std::pair<std::string, PhaseSplit>> phases_of(const RankTimeline& rank, std::span<const TimePoint> last) {
  std::vector<std::pair<std::string, PhaseSplit>> phases;
  for (const PhaseSpan& span : rank.phases) {
    const PhaseSplit split = split_of(rank, last, span);
    auto known = std::ranges::find(phases, span.name, &std::pair<std::string, PhaseSplit>::first);
    if (known == phases.end()) known = phases.insert(known, {span.name, {}});
    known->second = known->second + split;
  }
  return phases;
}

PhaseReport phase_report(const RankTimeline& rank, std::span<const TimePoint> last, const Arrivals& arrivals,
                         size_t index) {
  return {.split = split_of(rank, last, arrivals.phase),
          .steps = rank.steps_of(arrivals.phase),
          .collectives = rank.collectives_of(arrivals.phase),
          .arrivals = arrivals.ranks[index],
          .last_share = arrivals.last_share(index)};
}

std::string row(const RankReport& rank, std::string_view phase, const PhaseSplit& split, const std::string& last) {
  return fmt::format("{:>4}  {:<12}{:<12}{:>10.4f}{:>10.4f}{:>15.4f}{:>10.4f}{}\n", rank.rank, rank.host, phase,
                     split.total_s(), split.compute_s, split.communication_s, split.waiting_s, last);
}

/// The device's part of a phase's steps, and the host's before and after it; empty where the host computes.
std::string device_row(const RankReport& rank, const StepTotals& steps) {
  if (!steps.is_on_device()) return "";
  const auto each = [&](Duration part) { return to_seconds(part) * 1e6 / static_cast<double>(steps.steps); };
  return fmt::format("{:>4}  {:<12}{:<12}{:>10.4f}   us a step: {:.1f} device, {:.1f} host before it, {:.1f} after\n",
                     rank.rank, rank.host, "    device", to_seconds(steps.on_device.device),
                     each(steps.on_device.device), each(steps.before_device()), each(steps.on_device.after));
}

}  // namespace

GroupReport report_of(const std::vector<RankTimeline>& ranks) {
  GroupReport report;
  const std::vector<TimePoint> last = last_entries(ranks);
  const Arrivals prefill = arrivals_at(ranks, StepPhase::kPrefill), decode = arrivals_at(ranks, StepPhase::kDecode);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankTimeline& rank = ranks[i];
    report.ranks.push_back(
        {.rank = rank.rank,
         .host = rank.host,
         .phases = phases_of(rank, last),
         .prefill = phase_report(rank, last, prefill, i),
         .decode = phase_report(rank, last, decode, i),
         .collectives_outside = static_cast<uint64_t>(rank.collectives_of(StepPhase::kOutside).count),
         .clock_error_s = to_seconds(rank.clock_error),
         .dropped_steps = rank.dropped_steps,
         .dropped_collectives = rank.dropped_collectives});
  }
  for (const Arrivals& arrivals : {prefill, decode}) {
    std::string sentence = verdict(arrivals, ranks);
    if (!sentence.empty()) report.stragglers.push_back(std::move(sentence));
  }
  return report;
}

std::string to_table(const GroupReport& report) {
  std::string text = fmt::format("{:>4}  {:<12}{:<12}{:>10}{:>10}{:>15}{:>10}{:>9}\n", "rank", "host", "phase",
                                 "seconds", "compute", "communication", "waiting", "last");
  for (const RankReport& rank : report.ranks) {
    for (const auto& [name, split] : rank.phases) text += row(rank, name, split, "");
    for (const auto& [name, phase] : {std::pair{"  prefill", &rank.prefill}, {"  decode", &rank.decode}}) {
      text += row(rank, name, phase->split,
                  phase->collectives.count > 0 ? fmt::format("{:>7.0f} %", 100 * phase->last_share) : "");
      text += device_row(rank, phase->steps);
    }
  }
  for (const std::string& sentence : report.stragglers) text += sentence + "\n";
  for (const RankReport& rank : report.ranks) {
    if (rank.dropped_collectives == 0 && rank.dropped_steps == 0) continue;
    text += fmt::format(
        "rank {}: {} collectives and {} steps found no room (--trace-events); those collectives count "
        "as communication\n",
        rank.rank, rank.dropped_collectives, rank.dropped_steps);
  }
  text.pop_back();
  return text;
}

}  // namespace lockstep::trace
