#include "launcher/measure/bench/suite/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/core/short_number.h"

namespace lockstep::launcher::suite {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kEach = "/*";

Error no_number(const Operand& operand) {
  return {ErrorKind::kNotFound,
          fmt::format("[launcher/bench] the result of \"{}\" has no number at {}", operand.side, operand.pointer)};
}

/// The element of a list whose `key` is `number`, for "key=number".
const Json* chosen(const Json& list, std::string_view filter) {
  const size_t equals = filter.find('=');
  const std::string key(filter.substr(0, equals)), number(filter.substr(equals + 1));
  for (const Json& element : list) {
    if (element.is_object() && element.contains(key) && element[key].dump() == number) return &element;
  }
  return nullptr;
}

const Json* find(const Json& json, std::string_view pointer) {
  if (const size_t open = pointer.find("/["); open != std::string_view::npos) {
    const size_t close = pointer.find(']', open);
    const Json* list = find(json, pointer.substr(0, open));
    const Json* element = list == nullptr ? nullptr : chosen(*list, pointer.substr(open + 2, close - open - 2));
    return element == nullptr ? nullptr : find(*element, pointer.substr(close + 1));
  }
  const Json::json_pointer where{std::string(pointer)};
  return json.contains(where) ? &json.at(where) : nullptr;
}

/// One value, or those of every element of a list.
Result<std::vector<double>> values_of(const Operand& operand, const Documents& round) {
  const auto found = round.find(operand.side);
  if (found == round.end()) return no_number(operand);
  const Json document = Json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  const size_t star = operand.pointer.find(kEach);
  std::vector<const Json*> numbers;
  if (star == std::string::npos) {
    numbers.push_back(find(document, operand.pointer));
  } else {
    const Json* list = find(document, std::string_view(operand.pointer).substr(0, star));
    if (list == nullptr || !list->is_array() || list->empty()) return no_number(operand);
    for (const Json& element : *list) {
      numbers.push_back(find(element, std::string_view(operand.pointer).substr(star + kEach.size())));
    }
  }
  std::vector<double> values;
  for (const Json* number : numbers) {
    if (number == nullptr || !number->is_number()) return no_number(operand);
    values.push_back(number->get<double>());
  }
  return values;
}

Result<void> multiply(std::vector<double>& product, const Operand& operand, const Documents& round, bool inverted) {
  LOCKSTEP_TRY(const std::vector<double> values, values_of(operand, round));
  if (product.size() == 1) product.resize(values.size(), product.front());
  if (values.size() != 1 && values.size() != product.size()) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher/bench] the result of \"{}\" has {} values at {}, expected {}", operand.side,
                             values.size(), operand.pointer, product.size())};
  }
  for (size_t i = 0; i < product.size(); ++i) {
    const double value = values[values.size() == 1 ? 0 : i];
    product[i] = inverted ? product[i] / value : product[i] * value;
  }
  return ok();
}

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// Documents by round; a round that lacks a side cannot answer a formula that needs it.
std::vector<Documents> rounds_of(const Measurement& measurement, const std::vector<ChildRecord>& children) {
  std::vector<Documents> rounds(static_cast<size_t>(measurement.rounds));
  for (const ChildRecord& child : children) {
    if (child.status == ChildRecord::Status::kOk) rounds.at(child.round).emplace(child.side, child.document);
  }
  return rounds;
}

/// What a program says is not there to be measured, instead of measuring it.
std::optional<std::string> absent_thing(const std::vector<ChildRecord>& children) {
  for (const ChildRecord& child : children) {
    const Json document = Json::parse(child.document, nullptr, /*allow_exceptions=*/false);
    if (document.is_object() && document.contains("absent") && document["absent"].is_string()) {
      return document["absent"].get<std::string>();
    }
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> beside_of(const Goal& goal, const std::vector<Documents>& rounds) {
  std::vector<std::pair<std::string, std::string>> beside;
  for (const Shown& shown : goal.beside) {
    std::vector<double> values;
    for (const Documents& round : rounds) {
      const auto found = values_of(shown.operand, round);
      if (found.has_value()) values.insert(values.end(), found.value().begin(), found.value().end());
    }
    if (values.empty()) continue;
    const double median = pair_spread(std::move(values)).median * shown.scale;
    beside.emplace_back(shown.name, short_number(median) + " " + shown.unit);
  }
  return beside;
}

}  // namespace

Result<std::vector<double>> values_of(const Formula& formula, const Documents& round) {
  std::vector<double> product{formula.factor};
  for (const Operand& operand : formula.over) LOCKSTEP_TRY_VOID(multiply(product, operand, round, false));
  for (const Operand& operand : formula.under) LOCKSTEP_TRY_VOID(multiply(product, operand, round, true));
  if (!std::ranges::all_of(product, [](double value) { return std::isfinite(value); })) {
    return Error{ErrorKind::kInvalidArgument, "[launcher/bench] a figure cannot be made: found a division by 0"};
  }
  return product;
}

PairSpread pair_spread(std::vector<double> values) {
  LOCKSTEP_CHECK(!values.empty());
  std::ranges::sort(values);
  return {.median = quantile(values, 0.5),
          .min = values.front(),
          .max = values.back(),
          .lower = quantile(values, 0.25),
          .upper = quantile(values, 0.75)};
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAim: return "aim";
    case Verdict::kFloor: return "pass";
    case Verdict::kBelow: return "below";
    case Verdict::kFailed: return "failed";
    case Verdict::kNotAvailable: return "not available";
    case Verdict::kMissing: return "missing";
  }
  return "";
}

bool is_measured(Verdict verdict) {
  return verdict == Verdict::kAim || verdict == Verdict::kFloor || verdict == Verdict::kBelow;
}

double of_aim(const Goal& goal, double figure) {
  if (goal.better == Better::kHigher) return figure / goal.aim;
  return figure > 0 ? goal.aim / figure : std::numeric_limits<double>::infinity();
}

Verdict judge(const Goal& goal, double figure) {
  const auto reaches = [&](double limit) { return goal.better == Better::kHigher ? figure >= limit : figure <= limit; };
  if (reaches(goal.aim)) return Verdict::kAim;
  return reaches(goal.floor) ? Verdict::kFloor : Verdict::kBelow;
}

Row make_row(const Goal& goal, const Measurement& measurement, const std::vector<ChildRecord>& children) {
  Row row{.goal = goal};
  if (measurement.absence) {
    const bool missing = measurement.absence->kind == Absence::Kind::kMissing;
    row.verdict = missing ? Verdict::kMissing : Verdict::kNotAvailable;
    row.reason = measurement.absence->reason;
    return row;
  }
  const std::vector<Documents> rounds = rounds_of(measurement, children);
  for (const Documents& round : rounds) {
    const auto values = values_of(goal.figure, round);
    if (values.has_value()) {
      row.pairs.insert(row.pairs.end(), values.value().begin(), values.value().end());
    } else if (row.reason.empty()) {
      row.reason = values.error().message;
      row.verdict = Verdict::kNotAvailable;
    }
  }
  for (const ChildRecord& child : children) {  // says more than that its result is not there
    if (child.status == ChildRecord::Status::kOk) continue;
    row.reason = fmt::format("\"{}\": {}", child.side, child.reason);
    row.verdict = child.status == ChildRecord::Status::kRefused ? Verdict::kNotAvailable : Verdict::kFailed;
    break;
  }
  if (const auto absent = absent_thing(children)) {
    row.reason = *absent;
    row.verdict = Verdict::kMissing;
  }
  if (row.pairs.empty()) return row;
  row.spread = pair_spread(row.pairs);
  row.verdict = judge(goal, row.spread.median);
  row.beside = beside_of(goal, rounds);
  return row;
}

}  // namespace lockstep::launcher::suite
