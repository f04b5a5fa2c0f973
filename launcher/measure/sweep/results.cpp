#include "launcher/measure/sweep/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep::launcher {
namespace {

using Json = nlohmann::json;

/// The range of one number over the repetitions; `median` is bench's own.
Measured over_repetitions(const Json& repetitions, const char* name, double median) {
  Measured measured{median, median, median};
  for (const Json& repetition : repetitions) {
    const double value = repetition.at(name);
    measured.min = std::min(measured.min, value);
    measured.max = std::max(measured.max, value);
  }
  return measured;
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

/// Empty if there is no prediction, or one of another form.
std::optional<Prediction> prediction_of(const Json& json) {
  if (!json.contains("predicted")) return std::nullopt;
  try {
    const Json& predicted = json.at("predicted");
    const Json& share = predicted.at("communication_share");
    return Prediction{.decode_tokens_per_s = predicted.at("decode_tokens_per_s"),
                      .prefill_tokens_per_s = predicted.at("prefill_tokens_per_s"),
                      .ttft_s = predicted.at("ttft_s"),
                      .tpot_s = predicted.at("tpot_s"),
                      .decode_communication = share.at("decode"),
                      .prefill_communication = share.at("prefill")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

PointResult result_of(const Json& json) {
  const Json& repetitions = json.at("repetitions");
  const Json &decode = json.at("decode"), &prefill = json.at("prefill"), &probe = json.at("probe");
  return {.decode = over_repetitions(repetitions, "decode_tokens_per_s", decode.at("tokens_per_s")),
          .prefill = over_repetitions(repetitions, "prefill_tokens_per_s", prefill.at("tokens_per_s")),
          .ttft = over_repetitions(repetitions, "ttft_s", json.at("ttft_s")),
          .tpot = over_repetitions(repetitions, "tpot_s", json.at("tpot_s")),
          .decode_shares = shares_of(json.at("ranks"), "decode"),
          .prefill_shares = shares_of(json.at("ranks"), "prefill"),
          .of_bandwidth = decode.at("of_bandwidth"),
          .of_peak = prefill.at("of_peak"),
          .read_bytes_per_s = probe.at("read_bytes_per_s"),
          .flops_per_s = probe.at("flops_per_s"),
          .bad_probe = json.value("bad_probe", false),
          .threads = json.at("threads"),
          .dtype = json.at("dtype"),
          .backend = json.at("backend"),
          .communicator = json.at("communicator"),
          .predicted = prediction_of(json)};
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
    row.efficiency = *row.speed_up * base->record.shape.tp / row.record.shape.tp;
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
    std::ranges::sort(series.rows, {}, [](const ResultRow& row) { return row.record.shape.tp; });
    add_speed_ups(series);
  }
}

}  // namespace

Result<PointResult> parse_result(const std::string& document) {
  try {
    return result_of(Json::parse(document));
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
