#include "launcher/measure/sweep/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace lockstep::launcher {
namespace {

constexpr double kFarFromPrediction = 0.25;  // of the prediction
constexpr double kMuchWaiting = 0.5;         // of the time in collectives
constexpr double kTogether = 0.9;            // of a repetition's time

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }
std::string speed(double tokens_per_s) { return short_number(tokens_per_s) + " tokens/s"; }

bool overlap(const Measured& a, const Measured& b) { return a.min <= b.max && b.min <= a.max; }

/// "TP 1, 2, 2 × TP 2".
std::string names_of(std::vector<PointShape> shapes) {
  std::ranges::sort(shapes, {}, [](const PointShape& shape) { return std::pair(shape.replicas, shape.tp); });
  std::string names;
  std::set<std::string> named;
  for (const PointShape& shape : shapes) {
    const std::string name = split_name(shape);
    if (!named.insert(name).second) continue;
    const bool goes_on = !names.empty() && shape.replicas == 1;  // after another "TP"
    names += names.empty() ? name : goes_on ? fmt::format(", {}", shape.tp) : ", " + name;
  }
  return names;
}

/// "2 × 1".
std::string numbers_of(const ResultRow& row) {
  return fmt::format("{} × {}", row.record.shape.replicas, row.record.shape.tp);
}

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
  std::string text = fmt::format("{}: {} is the fastest: {}", name, split_name(winner.record.shape),
                                 speed(winner.result->decode.median));
  if (&winner != &base) {
    text += fmt::format(", {:.2f} times {} (efficiency {})", *winner.speed_up, split_name(base.record.shape),
                        percent(*winner.efficiency));
  }
  std::vector<PointShape> alike;
  for (const ResultRow* row : rows) {
    if (row != &winner && overlap(row->result->decode, winner.result->decode)) alike.push_back(row->record.shape);
  }
  if (!alike.empty()) {
    text += fmt::format("; the repetitions of {} reach as far, so {} may be as fast", names_of(alike),
                        alike.size() == 1 ? "it" : "they");
  }
  return text + ".";
}

/// "TP 4 (30 tokens/s) spends 62 % of a decode step in collectives …".
std::string where_time_goes(const ResultRow& row) {
  const StepShares& shares = row.result->decode_shares;
  std::string text = fmt::format(" {} ({}) spends {} of a decode step in collectives", split_name(row.record.shape),
                                 speed(row.result->decode.median), percent(shares.communication));
  if (shares.waiting > kMuchWaiting * shares.communication) {
    text += fmt::format(", {} waiting for other ranks", percent(shares.waiting));
  }
  return text + ".";
}

bool is_crowded(const ResultRow& row) {
  return row.result && row.record.machine.cores > 0 &&
         row.record.shape.ranks() * row.result->threads > row.record.machine.cores;
}

void add_series(const Series& series, const Study& study, std::vector<std::string>& verdicts) {
  const auto rows = working(series);
  if (rows.empty()) return;
  const std::string name = name_of(series, study);
  const ResultRow& winner = best(rows, [](const PointResult& r) { return r.decode.median; });
  if (rows.size() == 1) {
    verdicts.push_back(fmt::format("{}: {} makes {}; no other degree was measured.", name,
                                   split_name(winner.record.shape), speed(winner.result->decode.median)));
    return;
  }
  std::string verdict = fastest(name, rows, winner);
  for (const ResultRow* row : rows) {
    if (row->record.shape.ranks() > winner.record.shape.ranks()) verdict += where_time_goes(*row);
  }
  verdicts.push_back(std::move(verdict));
  const ResultRow& first = best(rows, [](const PointResult& r) { return -r.ttft.median; });
  if (&first != &winner && !overlap(first.result->ttft, winner.result->ttft)) {
    verdicts.push_back(fmt::format("{}: the first token comes soonest with {}: after {} ms, {} ms with {}.", name,
                                   split_name(first.record.shape), short_number(first.result->ttft.median * 1e3),
                                   short_number(winner.result->ttft.median * 1e3), split_name(winner.record.shape)));
  }
}

/// ", 1.14 times 1 × 2": `winner` relative to the others.
std::string compared(const std::vector<const ResultRow*>& rows, const ResultRow& winner, Measured PointResult::*field) {
  const Measured& own = (*winner.result).*field;
  std::string text;
  for (const ResultRow* row : rows) {
    if (row == &winner) continue;
    const Measured& other = (*row->result).*field;
    text += fmt::format(", {:.2f} times {}{}", own.median / other.median, numbers_of(*row),
                        overlap(other, own) ? ", whose repetitions reach as far" : "");
  }
  return text;
}

/// "2 × 1 (420 tokens/s, 1.14 times 1 × 2)".
std::string best_throughput(const std::vector<const ResultRow*>& rows) {
  const ResultRow& most = best(rows, [](const PointResult& r) { return r.decode.median; });
  return fmt::format("{} ({}{})", numbers_of(most), speed(most.result->decode.median),
                     compared(rows, most, &PointResult::decode));
}

/// "1 × 2 (12 ms a token, 0.80 times 2 × 1; first after 90 ms)".
std::string best_latency(const std::vector<const ResultRow*>& rows) {
  const ResultRow& least = best(rows, [](const PointResult& r) { return -r.tpot.median; });
  return fmt::format("{} ({} ms a token{}; first after {} ms)", numbers_of(least),
                     short_number(least.result->tpot.median * 1e3), compared(rows, least, &PointResult::tpot),
                     short_number(least.result->ttft.median * 1e3));
}

/// Adds the best splits of as many ranks into replicas and degrees, where several were measured.
void add_best_splits(const Series& series, const Study& study, std::vector<std::string>& verdicts) {
  std::map<int, std::vector<const ResultRow*>> by_ranks;
  for (const ResultRow* row : working(series)) by_ranks[row->record.shape.ranks()].push_back(row);
  for (const auto& [ranks, rows] : by_ranks) {
    if (rows.size() < 2) continue;
    verdicts.push_back(
        fmt::format("{}, P = {} ranks (replicas × degree): best split for throughput: {}; for latency: {}.",
                    name_of(series, study), ranks, best_throughput(rows), best_latency(rows)));
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
  verdicts.push_back(fmt::format("Most tokens in all come from {} sequences at once with {}: {}.",
                                 most->record.shape.batch, split_name(most->record.shape),
                                 speed(most->result->decode.median)));
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
      where = fmt::format("{} at {}: {} of {}", split_name(row->record.shape), name_of(series, study),
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
                             ? fmt::format("{} is impossible: {}", split_name(row.record.shape), reason)
                             : fmt::format("{}: {} has no result ({}): {}", name_of(series, study),
                                           split_name(row.record.shape), to_string(row.record.status), reason);
      if (said.insert(text).second) verdicts.push_back(std::move(text));
    }
  }
}

/// Adds the reasons to doubt numbers.
void add_doubts(const Study& study, std::vector<std::string>& verdicts) {
  std::vector<PointShape> crowded, bad, apart;
  int cores = 0;
  for (const Series& series : study.series) {
    for (const ResultRow* row : working(series)) {
      if (is_crowded(*row)) {
        crowded.push_back(row->record.shape);
        cores = row->record.machine.cores;
      }
      if (row->result->bad_probe) bad.push_back(row->record.shape);
      if (row->result->together.value_or(1.0) < kTogether) apart.push_back(row->record.shape);
    }
  }
  const bool one_machine = study.machines().size() == 1;
  if (!crowded.empty() && one_machine) {
    verdicts.push_back(
        fmt::format("{} had more compute threads than the machine's {} cores: ranks took turns, so "
                    "these points say little about that degree on its own cores.",
                    names_of(crowded), cores));
  }
  if (!apart.empty()) {
    verdicts.push_back(
        fmt::format("The groups of {} computed together for less than {} of a repetition: a group that computes alone "
                    "is faster than one beside others, so their sum may be too high.",
                    names_of(apart), percent(kTogether)));
  }
  if (!bad.empty()) {
    verdicts.push_back(
        fmt::format("Some points of {} came out above the machine's measured limit: other work "
                    "disturbed the probe; their ratios to it are not to be trusted.",
                    names_of(bad)));
  }
  if (!one_machine) {
    verdicts.push_back(fmt::format("Points were started from {} machines; compare them only if the machines are alike.",
                                   study.machines().size()));
  }
}

}  // namespace

std::vector<std::string> verdicts_of(const Study& study) {
  std::vector<std::string> verdicts;
  for (const Series& series : study.series) {
    add_series(series, study, verdicts);
    add_best_splits(series, study, verdicts);
  }
  add_throughput(study, verdicts);
  add_predictions(study, verdicts);
  add_doubts(study, verdicts);
  add_failures(study, verdicts);
  return verdicts;
}

}  // namespace lockstep::launcher
