#include "launcher/measure/bench/suite/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/core/short_number.h"

namespace lockstep::launcher::suite {
namespace {

using Json = nlohmann::ordered_json;

std::string limit(const Goal& goal, double value) {
  return fmt::format("{} {}", goal.better == Better::kHigher ? "≥" : "≤", short_number(value));
}

/// fmt counts bytes; "≥" is three of them and one column.
std::string in_columns(const std::string& text, size_t width) {
  const auto columns = static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  return columns < width ? std::string(width - columns, ' ') + text : text;
}

std::string row_text(const Row& row) {
  std::string line = fmt::format("{:<26}", row.goal.id);
  const bool measured = is_measured(row.verdict);
  line += in_columns(measured ? short_number(row.spread.median) : "–", 8);
  line += in_columns(limit(row.goal, row.goal.floor), 9) + in_columns(limit(row.goal, row.goal.aim), 9);
  line += fmt::format("  {:<14}", to_string(row.verdict));
  if (measured) {
    line += fmt::format("{} … {}, {} pair(s)", short_number(row.spread.min), short_number(row.spread.max),
                        row.pairs.size());
  }
  line += "\n      " + row.goal.name + "\n";
  std::string beside;
  for (const auto& [name, value] : row.beside) beside += (beside.empty() ? "" : ", ") + name + " " + value;
  if (!beside.empty()) line += "      " + beside + "\n";
  if (!row.reason.empty()) line += "      " + row.reason + "\n";
  return line;
}

Json row_json(const Row& row) {
  Json json = {{"id", row.goal.id},
               {"name", row.goal.name},
               {"better", row.goal.better == Better::kHigher ? "higher" : "lower"},
               {"floor", row.goal.floor},
               {"aim", row.goal.aim},
               {"verdict", to_string(row.verdict)},
               {"pairs", row.pairs}};
  if (!row.pairs.empty()) {
    json["median"] = row.spread.median;
    json["min"] = row.spread.min;
    json["max"] = row.spread.max;
    json["quartiles"] = {row.spread.lower, row.spread.upper};
  }
  if (!row.reason.empty()) json["reason"] = row.reason;
  for (const auto& [name, value] : row.beside) json["beside"][name] = value;
  return json;
}

Json child_json(const std::string& measurement, const ChildRecord& child) {
  Json json = {{"measurement", measurement}, {"side", child.side}, {"round", child.round},
               {"command", child.command},   {"code", child.code}, {"seconds", child.seconds}};
  if (!child.reason.empty()) json["reason"] = child.reason;
  if (!child.document.empty()) json["result"] = Json::parse(child.document, nullptr, /*allow_exceptions=*/false);
  return json;
}

void take_rivals(const Json& document, std::vector<Rival>& rivals) {
  if (!document.is_object() || !document.contains("rivals")) return;
  for (const Json& json : document["rivals"]) {
    if (!json.is_object()) continue;
    const Rival rival{.name = json.value("name", ""),
                      .version = json.value("version", ""),
                      .state = json.value("state", ""),
                      .reason = json.value("reason", "")};
    const auto known = std::ranges::find(rivals, rival.name, &Rival::name);
    if (known == rivals.end()) {
      rivals.push_back(rival);
    } else if (rival.state == "ran") {
      *known = rival;
    }
  }
}

}  // namespace

std::vector<Rival> rivals_of(const std::vector<std::pair<std::string, std::vector<ChildRecord>>>& children) {
  std::vector<Rival> rivals;
  for (const auto& [measurement, records] : children) {
    for (const ChildRecord& record : records) {
      take_rivals(Json::parse(record.document, nullptr, /*allow_exceptions=*/false), rivals);
    }
  }
  return rivals;
}

std::string summary(const Report& report) {
  const auto count = [&](Verdict verdict) { return std::ranges::count(report.rows, verdict, &Row::verdict); };
  const auto measured = count(Verdict::kAim) + count(Verdict::kFloor) + count(Verdict::kBelow);
  std::string text =
      fmt::format("{} of {} rows measured: {} reach the aim, {} more the floor, {} lie below it", measured,
                  report.rows.size(), count(Verdict::kAim), count(Verdict::kFloor), count(Verdict::kBelow));
  for (const Verdict verdict : {Verdict::kFailed, Verdict::kNotAvailable, Verdict::kMissing}) {
    if (count(verdict) > 0) text += fmt::format("; {} {}", count(verdict), to_string(verdict));
  }
  return text;
}

std::string to_table(const Report& report) {
  std::string text = fmt::format("suite {} of lockstep {} on {}: {} cores, {}\n", report.suite, report.version,
                                 report.machine.host, report.machine.cores, report.machine.cpu);
  text += fmt::format("rows about several ranks: {} of {} thread(s); {} pairs asked for\n\n", report.ranks,
                      report.threads, report.pairs);
  text += fmt::format("{:<26}{:>8}{:>9}{:>9}  {:<14}{}\n", "row", "median", "floor", "aim", "verdict", "least … most");
  for (const Row& row : report.rows) text += row_text(row);
  if (!report.rivals.empty()) text += "\nother engines\n";
  for (const Rival& rival : report.rivals) {
    text +=
        fmt::format("  {:<20}{:<9}{}\n", rival.name, rival.state, rival.state == "ran" ? rival.version : rival.reason);
  }
  return text + "\n" + summary(report) + "\n";
}

std::string to_json(const Report& report) {
  Json json = {
      {"suite", report.suite},
      {"version", report.version},
      {"unix_time", report.unix_time},
      {"machine", {{"host", report.machine.host}, {"cpu", report.machine.cpu}, {"cores", report.machine.cores}}},
      {"ranks", report.ranks},
      {"threads", report.threads},
      {"pairs", report.pairs},
      {"summary", summary(report)}};
  json["rows"] = Json::array();
  for (const Row& row : report.rows) json["rows"].push_back(row_json(row));
  json["rivals"] = Json::array();
  for (const Rival& rival : report.rivals) {
    json["rivals"].push_back(
        {{"name", rival.name}, {"version", rival.version}, {"state", rival.state}, {"reason", rival.reason}});
  }
  json["children"] = Json::array();
  for (const auto& [measurement, records] : report.children) {
    for (const ChildRecord& record : records) json["children"].push_back(child_json(measurement, record));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::launcher::suite
