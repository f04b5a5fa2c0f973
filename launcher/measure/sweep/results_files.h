// A study as CSV, JSON and text table, from one list of columns. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/measure/sweep/results.h"

namespace lockstep::launcher {

/// results.csv (RFC 4180): a header and a line for each point; empty fields for missing numbers.
std::string to_csv(const Study& study);

/// results.json: {"format", "model", "machines", "verdicts", "series": [{"name", "points": [index]}],
/// "points": [{column: value}]}; null where a CSV field is empty.
std::string to_json(const Study& study, const std::vector<std::string>& verdicts);

/// A column of the text table.
struct TableColumn {
  std::string_view title;
  std::string (*text)(const ResultRow& row);  // "–" for a missing number
};
/// Those of `study`: with the ranks and replicas where points have several groups.
std::span<const TableColumn> table_columns(const Study& study);

/// The table with a heading for each series, and the verdicts below.
std::string to_table(const Study& study, const std::vector<std::string>& verdicts);

}  // namespace lockstep::launcher
