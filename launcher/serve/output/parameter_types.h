// What the values of tools' parameters may be, for call formats whose text has no types:
//
//   <parameter=days>3</parameter>   with {"days": {"type": "integer"}}  ─►  3       with {"type": "string"}  ─►  "3"
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/output/output_reader.h"

namespace lockstep::serve {

/// The types that a schema allows, by their names in JSON Schema. A value.
struct ValueTypes {
  std::set<std::string, std::less<>> names = {"string"};
  bool is_limited = false;  // only certain texts fit, and blanks around them do not count

  /// Whether every text is a value as it is.
  bool is_any_text() const { return names.size() == 1 && names.contains("string") && !is_limited; }

  friend bool operator==(const ValueTypes&, const ValueTypes&) = default;
};

class ParameterTypes {
 public:
  ParameterTypes() = default;
  explicit ParameterTypes(const std::vector<Tool>& tools);

  /// A parameter that no schema describes is text.
  ValueTypes of(std::string_view function, std::string_view parameter) const;

 private:
  std::map<std::string, std::map<std::string, ValueTypes, std::less<>>, std::less<>> types_;
};

/// `text` as a JSON value. Text that is no value of another allowed type becomes a string. Python's True, False and
/// None are read as JSON's.
std::string typed_value(const ValueTypes& types, std::string_view text);

}  // namespace lockstep::serve
