#include "launcher/measure/sweep/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/measure/bench/spread.h"
#include "runtime/core/json_depth.h"

namespace lockstep::launcher {
namespace {

using Json = nlohmann::json;

/// How the values of groups that ran at the same time become one.
enum class OfGroups { kSum, kMost };

using Documents = std::vector<Json>;  // of bench, one a group

double of_groups(const Documents& groups, OfGroups how, const std::function<double(const Json&)>& value) {
  double all = 0;
  for (const Json& group : groups) all = how == OfGroups::kSum ? all + value(group) : std::max(all, value(group));
  return all;
}

/// One number over the repetitions; `median` is that of the only group, bench's own.
Measured over_repetitions(const Documents& groups, OfGroups how, const char* name, const char* median) {
  std::vector<double> values;
  for (size_t i = 0; i < groups.front().at("repetitions").size(); ++i) {
    values.push_back(
        of_groups(groups, how, [&](const Json& group) -> double { return group.at("repetitions").at(i).at(name); }));
  }
  if (groups.size() == 1) values.push_back(groups.front().at(Json::json_pointer(median)));
  const Spread spread = spread_of(values);
  return {groups.size() == 1 ? values.back() : spread.median, spread.min, spread.max};
}

/// The share of each repetition's time in which all groups computed; the median. Empty if the times are not known.
std::optional<double> time_together(const Documents& groups) {
  std::vector<double> shares;
  for (size_t i = 0; i < groups.front().at("repetitions").size() && groups.size() > 1; ++i) {
    double begin = 0, all_begun = 0, one_ended = std::numeric_limits<double>::max(), end = 0;
    for (const Json& group : groups) {
      const Json& repetition = group.at("repetitions").at(i);
      if (!repetition.contains("begin_s")) return std::nullopt;
      const double from = repetition.at("begin_s"), to = repetition.at("end_s");
      begin = begin == 0 ? from : std::min(begin, from);
      all_begun = std::max(all_begun, from);
      one_ended = std::min(one_ended, to);
      end = std::max(end, to);
    }
    shares.push_back(end > begin ? std::max(0.0, one_ended - all_begun) / (end - begin) : 1.0);
  }
  return shares.empty() ? std::nullopt : std::optional(spread_of(shares).median);
}

/// Means over the ranks.
StepShares shares_of(const Json& ranks, const char* phase) {
  StepShares mean;
  for (const Json& rank : ranks) {
    const Json& split = rank.at(phase);
    const double compute = split.at("compute_s"), communication = split.at("communication_s"),
                 waiting = split.at("waiting_s");
    const double all = compute + communication + waiting;
    if (all <= 0) continue;
    mean.communication += (communication + waiting) / all / static_cast<double>(ranks.size());
    mean.waiting += waiting / all / static_cast<double>(ranks.size());
  }
  return mean;
}

/// Empty if there is no prediction, or one of another form. Groups are predicted with the limits that each had.
std::optional<Prediction> prediction_of(const Documents& groups) {
  const auto each = [&](OfGroups how, const char* path) {
    return of_groups(groups, how,
                     [&](const Json& group) -> double { return group.at("predicted").at(Json::json_pointer(path)); });
  };
  if (!groups.front().contains("predicted")) return std::nullopt;
  try {
    return Prediction{.decode_tokens_per_s = each(OfGroups::kSum, "/decode_tokens_per_s"),
                      .prefill_tokens_per_s = each(OfGroups::kSum, "/prefill_tokens_per_s"),
                      .ttft_s = each(OfGroups::kMost, "/ttft_s"),
                      .tpot_s = each(OfGroups::kMost, "/tpot_s"),
                      .decode_communication = each(OfGroups::kMost, "/communication_share/decode"),
                      .prefill_communication = each(OfGroups::kMost, "/communication_share/prefill")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

Json ranks_of(const Documents& groups) {
  Json ranks = Json::array();
  for (const Json& group : groups) ranks.insert(ranks.end(), group.at("ranks").begin(), group.at("ranks").end());
  return ranks;
}

PointResult result_of(const Documents& groups) {
  const auto sum = [&](const char* path) {
    return of_groups(groups, OfGroups::kSum,
                     [&](const Json& group) -> double { return group.at(Json::json_pointer(path)); });
  };
  const auto of_limit = [&](const char* ratio, const char* limit) {  // of the sum of the groups' limits
    const double reached = of_groups(groups, OfGroups::kSum, [&](const Json& group) -> double {
      return group.at(Json::json_pointer(ratio)).get<double>() * group.at(Json::json_pointer(limit)).get<double>();
    });
    return sum(limit) > 0 ? reached / sum(limit) : 0.0;
  };
  const Json& first = groups.front();
  const Json ranks = ranks_of(groups);
  return {.decode = over_repetitions(groups, OfGroups::kSum, "decode_tokens_per_s", "/decode/tokens_per_s"),
          .prefill = over_repetitions(groups, OfGroups::kSum, "prefill_tokens_per_s", "/prefill/tokens_per_s"),
          .ttft = over_repetitions(groups, OfGroups::kMost, "ttft_s", "/ttft_s"),
          .tpot = over_repetitions(groups, OfGroups::kMost, "tpot_s", "/tpot_s"),
          .decode_shares = shares_of(ranks, "decode"),
          .prefill_shares = shares_of(ranks, "prefill"),
          .of_bandwidth = of_limit("/decode/of_bandwidth", "/probe/read_bytes_per_s"),
          .of_peak = of_limit("/prefill/of_peak", "/probe/flops_per_s"),
          .read_bytes_per_s = sum("/probe/read_bytes_per_s"),
          .flops_per_s = sum("/probe/flops_per_s"),
          .bad_probe = std::ranges::any_of(groups, [](const Json& group) { return group.value("bad_probe", false); }),
          .threads = first.at("threads"),
          .together = time_together(groups),
          .dtype = first.at("dtype"),
          .backend = first.at("backend"),
          .communicator = first.at("communicator"),
          .predicted = prediction_of(groups)};
}

bool belongs_to(const Series& series, const PointRecord& record) {
  return series.variant == record.variant && series.batch == record.shape.batch &&
         series.prompt_tokens == record.shape.prompt_tokens && series.new_tokens == record.shape.new_tokens;
}

Series& series_of(Study& study, const PointRecord& record) {
  const auto found =
      std::ranges::find_if(study.series, [&](const Series& series) { return belongs_to(series, record); });
  if (found != study.series.end()) return *found;
  return study.series.emplace_back(Series{.variant = record.variant,
                                          .batch = record.shape.batch,
                                          .prompt_tokens = record.shape.prompt_tokens,
                                          .new_tokens = record.shape.new_tokens,
                                          .rows = {}});
}

void add_speed_ups(Series& series) {
  const auto base = std::ranges::find_if(series.rows, [](const ResultRow& row) { return row.result.has_value(); });
  for (ResultRow& row : series.rows) {
    if (!row.result || base->result->decode.median <= 0) continue;
    row.speed_up = row.result->decode.median / base->result->decode.median;
    row.efficiency = *row.speed_up * base->record.shape.ranks() / row.record.shape.ranks();
  }
}

/// Sorts series and rows; variants keep the order in which they appeared.
void put_in_order(Study& study) {
  std::vector<SweepVariant> variants;
  for (const Series& series : study.series) {
    if (std::ranges::find(variants, series.variant) == variants.end()) variants.push_back(series.variant);
  }
  const auto place = [&](const Series& series) {
    return std::tuple(std::ranges::find(variants, series.variant) - variants.begin(), series.new_tokens, series.batch,
                      series.prompt_tokens);
  };
  std::ranges::sort(study.series, {}, place);
  for (Series& series : study.series) {
    std::ranges::sort(series.rows, {},
                      [](const ResultRow& row) { return std::pair(row.record.shape.ranks(), row.record.shape.tp); });
    add_speed_ups(series);
  }
}

}  // namespace

Result<PointResult> parse_result(const std::string& document) {
  try {
    const Json json = nests_too_deep(document) ? Json() : Json::parse(document);
    if (json.is_array()) static_cast<void>(json.at(0));  // throws for an empty list
    return result_of(json.is_array() ? json.get<Documents>() : Documents{json});
  } catch (const Json::exception& error) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher/sweep] cannot read a result of bench: {}; run the sweep again in another --out",
                             error.what())};
  }
}

size_t Study::variants() const {
  std::vector<SweepVariant> seen;
  for (const Series& one : series) {
    if (std::ranges::find(seen, one.variant) == seen.end()) seen.push_back(one.variant);
  }
  return seen.size();
}

bool Study::has_replicas() const {
  return std::ranges::any_of(series, [](const Series& one) {
    return std::ranges::any_of(one.rows, [](const ResultRow& row) { return row.record.shape.replicas > 1; });
  });
}

std::vector<Machine> Study::machines() const {
  std::vector<Machine> seen;
  for (const Series& one : series) {
    for (const ResultRow& row : one.rows) {
      if (std::ranges::find(seen, row.record.machine) == seen.end()) seen.push_back(row.record.machine);
    }
  }
  return seen;
}

Result<Study> make_study(const JournalFolder& journals) {
  Study study;
  study.model = journals.model.value_or(ModelIdentity{});
  for (const PointRecord& record : journals.points) {
    ResultRow row{.record = record};
    if (record.status == PointStatus::kOk) {
      auto result = parse_result(record.result);
      if (!result.has_value()) {
        return Error{result.error().kind, fmt::format("{} ({})", result.error().message, to_string(record.shape))};
      }
      row.result = std::move(result).value();
    }
    row.record.result.clear();
    series_of(study, record).rows.push_back(std::move(row));
  }
  put_in_order(study);
  return study;
}

std::string name_of(const Series& series, const Study& study) {
  std::string name = fmt::format("batch {}, {} prompt tokens", series.batch, series.prompt_tokens);
  const auto other_length = [&](const Series& other) { return other.new_tokens != series.new_tokens; };
  if (std::ranges::any_of(study.series, other_length)) name += fmt::format(", {} new", series.new_tokens);
  if (study.variants() > 1) name += fmt::format(" ({})", to_string(series.variant));
  return name;
}

}  // namespace lockstep::launcher
