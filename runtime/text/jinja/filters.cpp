// The filters, and the table of their names. One long file of small functions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/text/jinja/arithmetic.h"
#include "runtime/text/jinja/library.h"

namespace lockstep::jinja {
namespace {

using Filter = Value (*)(const Value& value, const Arguments& arguments, Budget& budget);
struct Entry {
  std::string_view name;
  Filter filter;
  std::string_view parameters = {};  // with blanks between them; "*" for any
};

/// `item.a.0` for the argument `attribute`; an integer is an index.
Value attribute_path(const Value& item, const Value& path) {
  if (path.string() == nullptr) return item_of(item, path);
  Value value = item;
  for (const Value& part : split_text(*path.string(), ".", -1)) {
    const std::string& name = *part.string();
    const bool is_index = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    const auto index = is_index ? parse_integer(name, 10) : std::nullopt;
    value = item_of(value, index ? Value(*index) : part);
  }
  return value;
}

/// Ignores case unless requested otherwise.
Value sort_key(const Value& value, bool case_sensitive) {
  return value.string() != nullptr && !case_sensitive ? Value(lower_case(*value.string())) : value;
}

Value default_value(const Value& value, const Arguments& arguments, Budget&) {
  const bool falsy_too = flag_argument(arguments, 1, "boolean", false);
  if (!value.is_undefined() && (!falsy_too || truthy(value))) return value;
  const Value* fallback = arguments.find(0, "default_value");
  return fallback == nullptr ? Value("") : *fallback;
}

Value trim(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value* chars = arguments.find(0, "chars");
  const std::string text = to_text(value);
  budget.bytes(text.size());
  return strip_text(text, chars == nullptr || chars->is_none() ? nullptr : &string_in(*chars), Ends::kBoth);
}

template <std::string (*kMap)(std::string_view)>
Value mapped(const Value& value, const Arguments&, Budget& budget) {
  const std::string text = to_text(value);
  budget.bytes(text.size());
  return kMap(text);
}

Value length(const Value& value, const Arguments&, Budget&) { return length_of(value); }
Value string(const Value& value, const Arguments&, Budget& budget) {
  std::string text = to_text(value);
  budget.bytes(text.size());
  return text;
}

Value join(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value* separator = arguments.find(0, "d");
  const Value* attribute = arguments.find(1, "attribute");
  const std::string between = separator == nullptr ? "" : to_text(*separator);
  std::string out;
  bool first = true;
  for (const Value& item : items_of(value)) {
    if (!std::exchange(first, false)) out += between;
    const std::string text = to_text(attribute == nullptr ? item : attribute_path(item, *attribute));
    budget.bytes(between.size() + text.size() + 1);
    out += text;
  }
  return out;
}

template <bool kFirst>
Value first_or_last(const Value& value, const Arguments&, Budget&) {
  const auto items = items_of(value);
  if (items.empty()) return Undefined{"an item of an empty sequence"};
  return kFirst ? items.front() : items.back();
}

Value replace(const Value& value, const Arguments& arguments, Budget& budget) {
  return replace_text(to_text(value), string_argument(arguments, 0, "old"), string_argument(arguments, 1, "new"),
                      integer_argument(arguments, 2, "count", -1), budget);
}

Value list(const Value& value, const Arguments&, Budget& budget) {
  auto items = items_of(value);
  budget.step(items.size());
  return List{std::move(items)};
}

Value to_int(const Value& value, const Arguments& arguments, Budget&) {
  int64_t integer = 0;
  if (as_integer(defined(value), integer)) return integer;
  std::optional<double> number;
  if (const std::string* text = value.string()) {
    if (const auto parsed = parse_integer(*text, integer_argument(arguments, 1, "base", 10))) return *parsed;
    number = parse_real(*text);
  } else if (const double* real = value.real()) {
    if (std::isinf(*real)) throw RenderFailure("infinity is no integer");
    number = *real;
  }
  if (number && std::abs(*number) < 9e18) return static_cast<int64_t>(*number);
  if (number && std::isfinite(*number)) throw RenderFailure("an integer is too large");
  const Value* fallback = arguments.find(0, "default");
  return fallback == nullptr ? Value(int64_t{0}) : *fallback;
}

Value to_float(const Value& value, const Arguments& arguments, Budget&) {
  double number = 0;
  if (as_number(defined(value), number)) return number;
  if (const std::string* text = value.string()) {
    if (const auto parsed = parse_real(*text)) return *parsed;
  }
  const Value* fallback = arguments.find(0, "default");
  return fallback == nullptr ? Value(0.0) : *fallback;
}

Value absolute(const Value& value, const Arguments&, Budget&) {
  int64_t integer = 0;
  double number = 0;
  if (as_integer(value, integer) && integer != INT64_MIN) return integer < 0 ? -integer : integer;
  if (as_number(value, number)) return std::abs(number);
  throw RenderFailure(fmt::format("abs does not take a {}", type_name(value)));
}

Value round(const Value& value, const Arguments& arguments, Budget&) {
  double number = 0;
  if (!as_number(value, number)) throw RenderFailure(fmt::format("round does not take a {}", type_name(value)));
  const int64_t digits = integer_argument(arguments, 0, "precision", 0);
  const Value* method = arguments.find(1, "method");
  const std::string name = method == nullptr ? "common" : string_in(*method);
  if (std::abs(digits) > 300) throw RenderFailure("round takes a precision of at most 300");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (name == "ceil") return std::ceil(number * scale) / scale;
  if (name == "floor") return std::floor(number * scale) / scale;
  if (name != "common") throw RenderFailure(fmt::format("round does not know the method {}", name));
  return rounded(value, digits);
}

Value sum(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value* attribute = arguments.find(0, "attribute");
  const Value* start = arguments.find(1, "start");
  Value total = start == nullptr ? Value(int64_t{0}) : *start;
  if (total.string() != nullptr) throw RenderFailure("sum does not take a str");
  for (const Value& item : items_of(value)) {
    total = arithmetic("+", total,
                       attribute == nullptr || attribute->is_none() ? item : attribute_path(item, *attribute), budget);
  }
  return total;
}

template <bool kLargest>
Value extreme(const Value& value, const Arguments& arguments, Budget& budget) {
  const bool case_sensitive = flag_argument(arguments, 0, "case_sensitive", false);
  const Value* attribute = arguments.find(1, "attribute");
  const auto items = items_of(value);
  budget.step(items.size());
  if (items.empty()) return Undefined{"an item of an empty sequence"};
  const auto key = [&](const Value& v) {
    return sort_key(attribute == nullptr ? v : attribute_path(v, *attribute), case_sensitive);
  };
  const Value* best = &items[0];
  for (const Value& item : items) {
    const int order = compare(key(item), key(*best));
    if (kLargest ? order > 0 : order < 0) best = &item;
  }
  return *best;
}

Value sort(const Value& value, const Arguments& arguments, Budget& budget) {
  const bool reverse = flag_argument(arguments, 0, "reverse", false);
  const bool case_sensitive = flag_argument(arguments, 1, "case_sensitive", false);
  const Value* attribute = arguments.find(2, "attribute");
  auto items = items_of(value);
  budget.step(items.size() * 8);
  const auto key = [&](const Value& v) {
    return sort_key(attribute == nullptr ? v : attribute_path(v, *attribute), case_sensitive);
  };
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    return reverse ? compare(key(b), key(a)) < 0 : compare(key(a), key(b)) < 0;
  });
  return List{std::move(items)};
}

Value dictsort(const Value& value, const Arguments& arguments, Budget& budget) {
  const bool case_sensitive = flag_argument(arguments, 0, "case_sensitive", false);
  const Value* by = arguments.find(1, "by");
  const bool reverse = flag_argument(arguments, 2, "reverse", false);
  if (value.dict() == nullptr) throw RenderFailure(fmt::format("dictsort does not take a {}", type_name(value)));
  const bool by_value = by != nullptr && string_in(*by) == "value";
  auto items = value.dict()->items;
  budget.step(items.size() * 8);
  const auto key = [&](const auto& item) { return sort_key(by_value ? item.second : item.first, case_sensitive); };
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return reverse ? compare(key(b), key(a)) < 0 : compare(key(a), key(b)) < 0;
  });
  List pairs;
  for (auto& [name, item] : items) pairs.items.emplace_back(List{{name, item}, /*is_tuple=*/true});
  return pairs;
}

Value items(const Value& value, const Arguments&, Budget& budget) {
  if (value.is_undefined()) return List{};
  if (value.dict() == nullptr) throw RenderFailure(fmt::format("items does not take a {}", type_name(value)));
  return method_of(value, "items", budget).callable()->call({});
}

Value reverse(const Value& value, const Arguments&, Budget& budget) {
  auto parts = items_of(value);
  budget.step(parts.size());
  std::reverse(parts.begin(), parts.end());
  if (value.string() == nullptr) return List{std::move(parts)};
  std::string out;
  for (const Value& part : parts) out += *part.string();
  return out;
}

Value unique(const Value& value, const Arguments& arguments, Budget& budget) {
  const bool case_sensitive = flag_argument(arguments, 0, "case_sensitive", false);
  List out;
  std::vector<Value> seen;
  const Value* attribute = arguments.find(1, "attribute");
  for (const Value& item : items_of(value)) {
    const Value key = sort_key(attribute == nullptr ? item : attribute_path(item, *attribute), case_sensitive);
    budget.step(seen.size() + 1);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& v) { return equal(v, key); })) continue;
    seen.push_back(key);
    out.items.push_back(item);
  }
  return out;
}

Value indent(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value* width = arguments.find(0, "width");
  const bool first = flag_argument(arguments, 1, "first", false);
  const bool blank = flag_argument(arguments, 2, "blank", false);
  std::string prefix = "    ";
  if (width != nullptr && width->string() != nullptr) {
    prefix = *width->string();
  } else if (width != nullptr) {
    const int64_t spaces = integer_in(*width);
    if (spaces > 10'000) throw RenderFailure("indent takes a width of at most 10000");
    prefix.assign(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
  }
  std::string out;
  bool is_first = true;
  for (const Value& line : split_lines(to_text(value) + "\n", /*keeps_ends=*/false)) {
    if (!is_first) out += '\n';
    if (is_first ? first : blank || !line.string()->empty()) out += prefix;
    out += *line.string();
    budget.bytes(prefix.size() + line.string()->size() + 1);
    is_first = false;
  }
  return out;
}

Value escape(const Value& value, const Arguments&, Budget& budget) {
  const std::string text = to_text(value);
  budget.bytes(text.size() * 2);
  return escape_html(text);
}

Value wordcount(const Value& value, const Arguments&, Budget&) { return count_words(to_text(value)); }

/// `xs | map(attribute="a")` and `xs | map("filter", …)`.
Value map(const Value& value, const Arguments& arguments, Budget& budget) {
  List out;
  const Value* attribute = arguments.find(arguments.positional.size(), "attribute");
  const Value* fallback = arguments.find(arguments.positional.size(), "default");
  Arguments rest = arguments;
  if (attribute == nullptr) {
    string_argument(arguments, 0, "filter");
    rest.positional.erase(rest.positional.begin());
  }
  for (const Value& item : items_of(value)) {
    budget.step();
    if (attribute == nullptr) {
      out.items.push_back(apply_filter(*arguments.positional[0].string(), item, rest, budget));
      continue;
    }
    Value found = attribute_path(item, *attribute);
    out.items.push_back(found.is_undefined() && fallback != nullptr ? *fallback : std::move(found));
  }
  return out;
}

/// select and reject test each item; selectattr and rejectattr test an attribute of each item.
template <bool kKeep, bool kByAttribute>
Value choose(const Value& value, const Arguments& arguments, Budget& budget) {
  Arguments rest = arguments;
  Value attribute;
  if (kByAttribute) {
    attribute = string_argument(arguments, 0, "attribute");
    rest.positional.erase(rest.positional.begin());
  }
  std::string test;
  if (!rest.positional.empty()) {
    test = string_in(rest.positional[0]);
    rest.positional.erase(rest.positional.begin());
  }
  List out;
  for (const Value& item : items_of(value)) {
    budget.step();
    const Value subject = kByAttribute ? attribute_path(item, attribute) : item;
    if ((test.empty() ? truthy(subject) : apply_test(test, subject, rest)) == kKeep) out.items.push_back(item);
  }
  return out;
}

Value tojson(const Value& value, const Arguments& arguments, Budget& budget) {
  return to_json(value, arguments, budget);
}

constexpr std::array kFilters = {
    Entry{"abs", absolute},
    Entry{"capitalize", mapped<capitalize>},
    Entry{"count", length},
    Entry{"d", default_value, "default_value boolean"},
    Entry{"default", default_value, "default_value boolean"},
    Entry{"dictsort", dictsort, "case_sensitive by reverse"},
    Entry{"e", escape},
    Entry{"escape", escape},
    Entry{"first", first_or_last<true>},
    Entry{"float", to_float, "default"},
    Entry{"indent", indent, "width first blank"},
    Entry{"int", to_int, "default base"},
    Entry{"items", items},
    Entry{"join", join, "d attribute"},
    Entry{"last", first_or_last<false>},
    Entry{"length", length},
    Entry{"list", list},
    Entry{"lower", mapped<lower_case>},
    Entry{"map", map, "*"},
    Entry{"max", extreme<true>, "case_sensitive attribute"},
    Entry{"min", extreme<false>, "case_sensitive attribute"},
    Entry{"reject", choose<false, false>, "*"},
    Entry{"rejectattr", choose<false, true>, "*"},
    Entry{"replace", replace, "old new count"},
    Entry{"reverse", reverse},
    Entry{"round", round, "precision method"},
    Entry{"safe", string},
    Entry{"select", choose<true, false>, "*"},
    Entry{"selectattr", choose<true, true>, "*"},
    Entry{"sort", sort, "reverse case_sensitive attribute"},
    Entry{"string", string},
    Entry{"sum", sum, "attribute start"},
    Entry{"title", mapped<title_words>},
    Entry{"tojson", tojson, "ensure_ascii indent separators sort_keys"},
    Entry{"trim", trim, "chars"},
    Entry{"unique", unique, "case_sensitive attribute"},
    Entry{"upper", mapped<upper_case>},
    Entry{"wordcount", wordcount},
};

}  // namespace

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget) {
  for (const Entry& entry : kFilters) {
    if (entry.name != name) continue;
    check_arguments(name, entry.parameters, arguments);
    return entry.filter(value, arguments, budget);
  }
  std::string known;
  for (const Entry& entry : kFilters) known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
  throw RenderFailure(fmt::format("found the filter {}, expected one of {}", name, known));
}

}  // namespace lockstep::jinja
