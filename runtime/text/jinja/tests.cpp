// `value is name`.
#include <fmt/format.h>

#include <array>

#include "runtime/text/jinja/library.h"

namespace lockstep::jinja {
namespace {

using Test = bool (*)(const Value& value, const Arguments& arguments);
struct Entry {
  std::string_view name;
  Test test;
};

const Value& other(const Arguments& arguments) {
  const Value* value = arguments.find(0, "other");
  if (value == nullptr) throw RenderFailure("a test needs a value to compare with");
  return *value;
}

bool is_sequence(const Value& value, const Arguments&) {
  return value.string() != nullptr || value.list() != nullptr || value.dict() != nullptr || value.is_undefined();
}

bool is_number(const Value& value, const Arguments&) {
  double number = 0;
  return as_number(value, number);
}

bool is_divisible(const Value& value, const Arguments& arguments) {
  const int64_t by = integer_in(other(arguments));
  if (by == 0) throw RenderFailure("nothing is divisible by 0");
  return by == -1 || integer_in(value) % by == 0;
}

constexpr std::array kTests = {
    Entry{"defined", [](const Value& v, const Arguments&) { return !v.is_undefined(); }},
    Entry{"undefined", [](const Value& v, const Arguments&) { return v.is_undefined(); }},
    Entry{"none", [](const Value& v, const Arguments&) { return v.is_none(); }},
    Entry{"boolean", [](const Value& v, const Arguments&) { return v.boolean() != nullptr; }},
    Entry{"true", [](const Value& v, const Arguments&) { return v.boolean() != nullptr && *v.boolean(); }},
    Entry{"false", [](const Value& v, const Arguments&) { return v.boolean() != nullptr && !*v.boolean(); }},
    Entry{"integer", [](const Value& v, const Arguments&) { return v.integer() != nullptr; }},
    Entry{"float", [](const Value& v, const Arguments&) { return v.real() != nullptr; }},
    Entry{"number", is_number},
    Entry{"string", [](const Value& v, const Arguments&) { return v.string() != nullptr; }},
    Entry{"mapping", [](const Value& v, const Arguments&) { return v.dict() != nullptr; }},
    Entry{"sequence", is_sequence},
    Entry{"iterable", is_sequence},
    Entry{"callable", [](const Value& v, const Arguments&) { return v.callable() != nullptr; }},
    Entry{"odd", [](const Value& v, const Arguments&) { return integer_in(v) % 2 != 0; }},
    Entry{"even", [](const Value& v, const Arguments&) { return integer_in(v) % 2 == 0; }},
    Entry{"divisibleby", is_divisible},
    Entry{"in", [](const Value& v, const Arguments& a) { return contains(other(a), v); }},
    Entry{"eq", [](const Value& v, const Arguments& a) { return equal(v, other(a)); }},
    Entry{"equalto", [](const Value& v, const Arguments& a) { return equal(v, other(a)); }},
    Entry{"==", [](const Value& v, const Arguments& a) { return equal(v, other(a)); }},
    Entry{"ne", [](const Value& v, const Arguments& a) { return !equal(v, other(a)); }},
    Entry{"!=", [](const Value& v, const Arguments& a) { return !equal(v, other(a)); }},
    Entry{"lt", [](const Value& v, const Arguments& a) { return compare(v, other(a)) < 0; }},
    Entry{"lessthan", [](const Value& v, const Arguments& a) { return compare(v, other(a)) < 0; }},
    Entry{"<", [](const Value& v, const Arguments& a) { return compare(v, other(a)) < 0; }},
    Entry{"le", [](const Value& v, const Arguments& a) { return compare(v, other(a)) <= 0; }},
    Entry{"<=", [](const Value& v, const Arguments& a) { return compare(v, other(a)) <= 0; }},
    Entry{"gt", [](const Value& v, const Arguments& a) { return compare(v, other(a)) > 0; }},
    Entry{"greaterthan", [](const Value& v, const Arguments& a) { return compare(v, other(a)) > 0; }},
    Entry{">", [](const Value& v, const Arguments& a) { return compare(v, other(a)) > 0; }},
    Entry{"ge", [](const Value& v, const Arguments& a) { return compare(v, other(a)) >= 0; }},
    Entry{">=", [](const Value& v, const Arguments& a) { return compare(v, other(a)) >= 0; }},
    Entry{"lower", [](const Value& v, const Arguments&) { return is_in_case(to_text(v), /*is_upper=*/false); }},
    Entry{"upper", [](const Value& v, const Arguments&) { return is_in_case(to_text(v), /*is_upper=*/true); }},
    Entry{"sameas",
          [](const Value& v, const Arguments& a) { return type_name(v) == type_name(other(a)) && equal(v, other(a)); }},
};

}  // namespace

bool apply_test(std::string_view name, const Value& value, const Arguments& arguments) {
  for (const Entry& entry : kTests) {
    if (entry.name == name) return entry.test(value, arguments);
  }
  throw RenderFailure(fmt::format("found the test {}, which is not known", name));
}

}  // namespace lockstep::jinja
