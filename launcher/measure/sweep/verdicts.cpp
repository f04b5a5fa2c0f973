#include "launcher/measure/sweep/verdicts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace lockstep::launcher {
namespace {

constexpr double kFarFromPrediction = 0.25;  // of the prediction
constexpr double kMuchWaiting = 0.5;         // of the time in collectives

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }
std::string speed(double tokens_per_s) { return short_number(tokens_per_s) + " tokens/s"; }

bool overlap(const Measured& a, const Measured& b) { return a.min <= b.max && b.min <= a.max; }

/// Rows that worked.
std::vector<const ResultRow*> working(const Series& series) {
  std::vector<const ResultRow*> rows;
  for (const ResultRow& row : series.rows) {
    if (row.result) rows.push_back(&row);
  }
  return rows;
}

template <typename Value>
const ResultRow& best(const std::vector<const ResultRow*>& rows, Value value) {
  return **std::ranges::max_element(rows, {}, [&](const ResultRow* row) { return value(*row->result); });
}

/// "decodes fastest: 41 tokens/s, 1.62 times TP 1 (efficiency 81 %)".
std::string fastest(const std::string& name, const std::vector<const ResultRow*>& rows, const ResultRow& winner) {
  const ResultRow& base = *rows.front();
  const int tp = winner.record.shape.tp;
  std::string text = fmt::format("{}: TP {} is the fastest: {}", name, tp, speed(winner.result->decode.median));
  if (&winner != &base) {
    text += fmt::format(", {:.2f} times TP {} (efficiency {})", *winner.speed_up, base.record.shape.tp,
                        percent(*winner.efficiency));
  }
  std::vector<int> alike;
  for (const ResultRow* row : rows) {
    if (row != &winner && overlap(row->result->decode, winner.result->decode)) alike.push_back(row->record.shape.tp);
  }
  if (!alike.empty()) {
    text += fmt::format("; the repetitions of TP {} reach as far, so {} may be as fast", fmt::join(alike, ", "),
                        alike.size() == 1 ? "it" : "they");
  }
  return text + ".";
}

/// "TP 4 (30 tokens/s) spends 62 % of a decode step in collectives …".
std::string where_time_goes(const ResultRow& row) {
  const StepShares& shares = row.result->decode_shares;
  std::string text = fmt::format(" TP {} ({}) spends {} of a decode step in collectives", row.record.shape.tp,
                                 speed(row.result->decode.median), percent(shares.communication));
  if (shares.waiting > kMuchWaiting * shares.communication) {
    text += fmt::format(", {} waiting for other ranks", percent(shares.waiting));
  }
  return text + ".";
}

bool is_crowded(const ResultRow& row) {
  return row.result && row.record.machine.cores > 0 &&
         row.record.shape.tp * row.result->threads > row.record.machine.cores;
}

void add_series(const Series& series, const Study& study, std::vector<std::string>& verdicts) {
  const auto rows = working(series);
  if (rows.empty()) return;
  const std::string name = name_of(series, study);
  const ResultRow& winner = best(rows, [](const PointResult& r) { return r.decode.median; });
  if (rows.size() == 1) {
    verdicts.push_back(fmt::format("{}: TP {} makes {}; no other degree was measured.", name, winner.record.shape.tp,
                                   speed(winner.result->decode.median)));
    return;
  }
  std::string verdict = fastest(name, rows, winner);
  for (const ResultRow* row : rows) {
    if (row->record.shape.tp > winner.record.shape.tp) verdict += where_time_goes(*row);
  }
  verdicts.push_back(std::move(verdict));
  const ResultRow& first = best(rows, [](const PointResult& r) { return -r.ttft.median; });
  if (&first != &winner && !overlap(first.result->ttft, winner.result->ttft)) {
    verdicts.push_back(fmt::format("{}: the first token comes soonest with TP {}: after {} ms, {} ms with TP {}.", name,
                                   first.record.shape.tp, short_number(first.result->ttft.median * 1e3),
                                   winner.result->ttft.median * 1e3, winner.record.shape.tp));
  }
}

/// Adds the batch size with the highest total throughput, if there are several.
void add_throughput(const Study& study, std::vector<std::string>& verdicts) {
  std::set<int64_t> batches;
  const ResultRow* most = nullptr;
  for (const Series& series : study.series) {
    for (const ResultRow* row : working(series)) {
      batches.insert(series.batch);
      if (most == nullptr || row->result->decode.median > most->result->decode.median) most = row;
    }
  }
  if (batches.size() < 2) return;
  verdicts.push_back(fmt::format("Most tokens in all come from {} sequences at once with TP {}: {}.",
                                 most->record.shape.batch, most->record.shape.tp, speed(most->result->decode.median)));
}

/// Compares measurements with predictions, if one prediction is far off.
void add_predictions(const Study& study, std::vector<std::string>& verdicts) {
  double least = std::numeric_limits<double>::infinity(), most = 0, furthest = 0;
  std::string where;
  for (const Series& series : study.series) {
    for (const ResultRow* row : working(series)) {
      const auto& predicted = row->result->predicted;
      if (!predicted || predicted->decode_tokens_per_s <= 0) continue;
      const double ratio = row->result->decode.median / predicted->decode_tokens_per_s;
      least = std::min(least, ratio);
      most = std::max(most, ratio);
      if (std::abs(ratio - 1) <= furthest) continue;
      furthest = std::abs(ratio - 1);
      where = fmt::format("TP {} at {}: {} of {}", row->record.shape.tp, name_of(series, study),
                          speed(row->result->decode.median), speed(predicted->decode_tokens_per_s));
    }
  }
  if (furthest <= kFarFromPrediction) return;
  verdicts.push_back(fmt::format("Decoding reaches {} to {} of the predicted speed (furthest from it: {}).",
                                 percent(least), percent(most), where));
}

/// Adds each failure message once: impossible degrees fail alike in every series.
void add_failures(const Study& study, std::vector<std::string>& verdicts) {
  std::set<std::string> said;
  for (const Series& series : study.series) {
    for (const ResultRow& row : series.rows) {
      if (row.result) continue;
      const std::string reason = row.record.message.substr(0, row.record.message.find('\n'));
      std::string text = row.record.status == PointStatus::kImpossible
                             ? fmt::format("TP {} is impossible: {}", row.record.shape.tp, reason)
                             : fmt::format("{}: TP {} has no result ({}): {}", name_of(series, study),
                                           row.record.shape.tp, to_string(row.record.status), reason);
      if (said.insert(text).second) verdicts.push_back(std::move(text));
    }
  }
}

/// Adds the reasons to doubt numbers.
void add_doubts(const Study& study, std::vector<std::string>& verdicts) {
  std::set<int> crowded, bad;
  int cores = 0;
  for (const Series& series : study.series) {
    for (const ResultRow* row : working(series)) {
      if (is_crowded(*row)) {
        crowded.insert(row->record.shape.tp);
        cores = row->record.machine.cores;
      }
      if (row->result->bad_probe) bad.insert(row->record.shape.tp);
    }
  }
  const bool one_machine = study.machines().size() == 1;
  if (!crowded.empty() && one_machine) {
    verdicts.push_back(
        fmt::format("TP {} had more compute threads than the machine's {} cores: ranks took turns, so "
                    "these points say little about that degree on its own cores.",
                    fmt::join(crowded, ", "), cores));
  }
  if (!bad.empty()) {
    verdicts.push_back(
        fmt::format("Some points of TP {} came out above the machine's measured limit: other work "
                    "disturbed the probe; their ratios to it are not to be trusted.",
                    fmt::join(bad, ", ")));
  }
  if (!one_machine) {
    verdicts.push_back(fmt::format("Points were started from {} machines; compare them only if the machines are alike.",
                                   study.machines().size()));
  }
}

}  // namespace

std::vector<std::string> verdicts_of(const Study& study) {
  std::vector<std::string> verdicts;
  for (const Series& series : study.series) add_series(series, study, verdicts);
  add_throughput(study, verdicts);
  add_predictions(study, verdicts);
  add_doubts(study, verdicts);
  add_failures(study, verdicts);
  return verdicts;
}

}  // namespace lockstep::launcher
