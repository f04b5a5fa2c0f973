#include "launcher/measure/sweep/results_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

namespace lockstep::launcher {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNone = "–";

struct Column {
  const char* name;
  std::function<Json(const ResultRow&)> value;
};

/// A number of the result; null without one.
Column of_result(const char* name, std::function<Json(const PointResult&)> value) {
  return {name, [value = std::move(value)](const ResultRow& row) { return row.result ? value(*row.result) : Json(); }};
}

Column of_prediction(const char* name, double Prediction::*field) {
  return of_result(name, [field](const PointResult& r) { return r.predicted ? Json((*r.predicted).*field) : Json(); });
}

void add_measured(std::vector<Column>& columns, const std::vector<const char*>& names, Measured PointResult::*field) {
  columns.push_back(of_result(names[0], [field](const PointResult& r) { return Json((r.*field).median); }));
  columns.push_back(of_result(names[1], [field](const PointResult& r) { return Json((r.*field).min); }));
  columns.push_back(of_result(names[2], [field](const PointResult& r) { return Json((r.*field).max); }));
}

Json optional(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::vector<Column> point_columns() {
  return {{"tp", [](const ResultRow& row) { return Json(row.record.shape.tp); }},
          {"replicas", [](const ResultRow& row) { return Json(row.record.shape.replicas); }},
          {"ranks", [](const ResultRow& row) { return Json(row.record.shape.ranks()); }},
          {"batch_size", [](const ResultRow& row) { return Json(row.record.shape.batch); }},
          {"prompt_tokens", [](const ResultRow& row) { return Json(row.record.shape.prompt_tokens); }},
          {"new_tokens", [](const ResultRow& row) { return Json(row.record.shape.new_tokens); }},
          {"status", [](const ResultRow& row) { return Json(to_string(row.record.status)); }},
          {"exit_code", [](const ResultRow& row) { return Json(row.record.code); }}};
}

void add_speeds(std::vector<Column>& columns) {
  add_measured(columns, {"decode_tokens_per_s", "decode_tokens_per_s_min", "decode_tokens_per_s_max"},
               &PointResult::decode);
  add_measured(columns, {"prefill_tokens_per_s", "prefill_tokens_per_s_min", "prefill_tokens_per_s_max"},
               &PointResult::prefill);
  add_measured(columns, {"ttft_s", "ttft_s_min", "ttft_s_max"}, &PointResult::ttft);
  add_measured(columns, {"tpot_s", "tpot_s_min", "tpot_s_max"}, &PointResult::tpot);
  columns.push_back({"speed_up", [](const ResultRow& row) { return optional(row.speed_up); }});
  columns.push_back({"efficiency", [](const ResultRow& row) { return optional(row.efficiency); }});
}

void add_shares(std::vector<Column>& columns) {
  const auto share = [&](const char* name, StepShares PointResult::*phase, double StepShares::*part) {
    columns.push_back(of_result(name, [=](const PointResult& r) { return Json(r.*phase.*part); }));
  };
  share("decode_communication_share", &PointResult::decode_shares, &StepShares::communication);
  share("decode_waiting_share", &PointResult::decode_shares, &StepShares::waiting);
  share("prefill_communication_share", &PointResult::prefill_shares, &StepShares::communication);
  share("prefill_waiting_share", &PointResult::prefill_shares, &StepShares::waiting);
  columns.push_back(of_prediction("predicted_decode_tokens_per_s", &Prediction::decode_tokens_per_s));
  columns.push_back(of_prediction("predicted_prefill_tokens_per_s", &Prediction::prefill_tokens_per_s));
  columns.push_back(of_prediction("predicted_ttft_s", &Prediction::ttft_s));
  columns.push_back(of_prediction("predicted_tpot_s", &Prediction::tpot_s));
  columns.push_back(of_prediction("predicted_decode_communication_share", &Prediction::decode_communication));
  columns.push_back(of_prediction("predicted_prefill_communication_share", &Prediction::prefill_communication));
}

void add_machine(std::vector<Column>& columns) {
  const auto number = [&](const char* name, double PointResult::*field) {
    columns.push_back(of_result(name, [field](const PointResult& r) { return Json(r.*field); }));
  };
  const auto text = [&](const char* name, std::string PointResult::*field) {
    columns.push_back(of_result(name, [field](const PointResult& r) { return Json(r.*field); }));
  };
  number("of_bandwidth", &PointResult::of_bandwidth);
  number("of_peak", &PointResult::of_peak);
  number("read_bytes_per_s", &PointResult::read_bytes_per_s);
  number("flops_per_s", &PointResult::flops_per_s);
  columns.push_back(of_result("bad_probe", [](const PointResult& r) { return Json(r.bad_probe); }));
  columns.push_back(of_result("together", [](const PointResult& r) { return optional(r.together); }));
  columns.push_back(of_result("threads", [](const PointResult& r) { return Json(r.threads); }));
  text("dtype", &PointResult::dtype);
  text("backend", &PointResult::backend);
  text("communicator", &PointResult::communicator);
  columns.push_back({"host", [](const ResultRow& row) { return Json(row.record.machine.host); }});
  columns.push_back({"cores", [](const ResultRow& row) { return Json(row.record.machine.cores); }});
  columns.push_back({"seconds", [](const ResultRow& row) { return Json(row.record.seconds); }});
  columns.push_back({"variant", [](const ResultRow& row) { return Json(to_string(row.record.variant)); }});
  columns.push_back(
      {"output", [](const ResultRow& row) { return row.record.output.empty() ? Json() : Json(row.record.output); }});
  columns.push_back({"message", [](const ResultRow& row) { return Json(row.record.message); }});
}

std::vector<Column> all_columns() {
  std::vector<Column> columns = point_columns();
  add_speeds(columns);
  add_shares(columns);
  add_machine(columns);
  return columns;
}

std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  const std::string text = value.get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + "\"";
}

template <typename Visit>
void for_each_row(const Study& study, Visit visit) {
  for (const Series& series : study.series) std::ranges::for_each(series.rows, visit);
}

/// Columns on a terminal: "–" is three bytes and one column.
size_t places(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string right(std::string_view text, size_t width) {
  const size_t taken = places(text);
  return std::string(width > taken ? width - taken : 0, ' ') + std::string(text);
}

template <typename Value>
std::string shown(const ResultRow& row, Value value) {
  return row.result ? value(*row.result) : kNone;
}

std::string with_spread(const Measured& measured, double scale) {
  return fmt::format("{} ({}–{})", short_number(measured.median * scale), short_number(measured.min * scale),
                     short_number(measured.max * scale));
}

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }

std::string predicted_decode(const PointResult& result) {
  return result.predicted ? short_number(result.predicted->decode_tokens_per_s) : kNone;
}

}  // namespace

std::string to_csv(const Study& study) {
  const std::vector<Column> columns = all_columns();
  std::string text;
  for (const Column& column : columns) text += fmt::format("{}{}", text.empty() ? "" : ",", column.name);
  text += "\r\n";
  for_each_row(study, [&](const ResultRow& row) {
    for (const Column& column : columns) {
      text += fmt::format("{}{}", &column == &columns.front() ? "" : ",", csv_field(column.value(row)));
    }
    text += "\r\n";
  });
  return text;
}

std::string to_json(const Study& study, const std::vector<std::string>& verdicts) {
  const std::vector<Column> columns = all_columns();
  Json json = {{"format", 1},
               {"model", {{"path", study.model.path}, {"random_weights", study.model.random_weights}}},
               {"machines", Json::array()},
               {"verdicts", Json(verdicts)},
               {"series", Json::array()},
               {"points", Json::array()}};
  for (const Machine& machine : study.machines()) {
    json["machines"].push_back({{"host", machine.host}, {"cpu", machine.cpu}, {"cores", machine.cores}});
  }
  for (const Series& series : study.series) {
    std::map<int, Json> lines;  // of a chart: the points with the same number of replicas
    for (const ResultRow& row : series.rows) {
      lines[row.record.shape.replicas].push_back(json["points"].size());
      Json& point = json["points"].emplace_back(Json::object());
      for (const Column& column : columns) point[column.name] = column.value(row);
    }
    for (const auto& [replicas, points] : lines) {
      const std::string split = study.has_replicas() ? fmt::format(", replicas: {}", replicas) : "";
      json["series"].push_back({{"name", name_of(series, study) + split}, {"points", points}});
    }
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::span<const TableColumn> table_columns(const Study& study) {
  constexpr size_t kOfReplicas = 2;
  static constexpr TableColumn kColumns[] = {
      {"P", [](const ResultRow& row) { return std::to_string(row.record.shape.ranks()); }},
      {"replicas", [](const ResultRow& row) { return std::to_string(row.record.shape.replicas); }},
      {"TP", [](const ResultRow& row) { return std::to_string(row.record.shape.tp); }},
      {"decode tok/s",
       [](const ResultRow& row) { return shown(row, [](const auto& r) { return with_spread(r.decode, 1); }); }},
      {"predicted", [](const ResultRow& row) { return shown(row, predicted_decode); }},
      {"speed-up", [](const ResultRow& row) { return row.speed_up ? fmt::format("{:.2f}", *row.speed_up) : kNone; }},
      {"efficiency", [](const ResultRow& row) { return row.efficiency ? percent(*row.efficiency) : kNone; }},
      {"TPOT ms",
       [](const ResultRow& row) {
         return shown(row, [](const auto& r) { return short_number(r.tpot.median * 1e3); });
       }},
      {"TTFT ms",
       [](const ResultRow& row) { return shown(row, [](const auto& r) { return with_spread(r.ttft, 1e3); }); }},
      {"prefill tok/s",
       [](const ResultRow& row) { return shown(row, [](const auto& r) { return short_number(r.prefill.median); }); }},
      {"in collectives",
       [](const ResultRow& row) {
         return shown(row, [](const auto& r) { return percent(r.decode_shares.communication); });
       }},
      {"of bandwidth",
       [](const ResultRow& row) { return shown(row, [](const auto& r) { return percent(r.of_bandwidth); }); }},
      {"status", [](const ResultRow& row) { return std::string(to_string(row.record.status)); }}};
  return std::span(kColumns).subspan(study.has_replicas() ? 0 : kOfReplicas);
}

std::string to_table(const Study& study, const std::vector<std::string>& verdicts) {
  const std::span<const TableColumn> columns = table_columns(study);
  std::vector<size_t> widths;
  for (const TableColumn& column : columns) {
    size_t width = places(column.title);
    for_each_row(study, [&](const ResultRow& row) { width = std::max(width, places(column.text(row))); });
    widths.push_back(width);
  }
  std::string text;
  for (const Series& series : study.series) {
    text += name_of(series, study) + "\n";
    for (size_t i = 0; i < columns.size(); ++i) text += "  " + right(columns[i].title, widths[i]);
    text += "\n";
    for (const ResultRow& row : series.rows) {
      for (size_t i = 0; i < columns.size(); ++i) text += "  " + right(columns[i].text(row), widths[i]);
      text += "\n";
    }
    text += "\n";
  }
  for (const std::string& verdict : verdicts) text += verdict + "\n";
  return text;
}

}  // namespace lockstep::launcher
