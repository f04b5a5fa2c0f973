#include "runtime/text/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/text/jinja/library.h"
#include "runtime/text/unicode.h"

namespace lockstep::jinja {
namespace {

constexpr int kMaxDepth = 100;

int depth_of(const Value& value) {
  if (value.name_space() != nullptr) throw RenderFailure("a namespace cannot be kept in a list or dictionary");
  if (const List* list = value.list()) return list->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  return 0;
}

int checked_depth(int inner) {
  if (inner >= kMaxDepth) throw RenderFailure(fmt::format("lists are nested deeper than {}", kMaxDepth));
  return inner + 1;
}

std::string quoted_text(std::string_view text) {
  const bool use_double = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = use_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = text::next_char(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += {'\\', static_cast<char>(c)};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += text.substr(begin, at - begin);
    } else {
      const auto code = static_cast<uint32_t>(c);
      out += code < 0x100     ? fmt::format("\\x{:02x}", code)
             : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code);
    }
  }
  return out + quote;
}

int order(double a, double b) { return a < b ? -1 : a > b ? 1 : 0; }

}  // namespace

Value::Value(List v) {
  int inner = 0;
  for (const Value& item : v.items) inner = std::max(inner, depth_of(item));
  v.depth = checked_depth(inner);
  storage_ = std::make_shared<const List>(std::move(v));
}

Value::Value(Dict v) {
  int inner = 0;
  for (const auto& [key, item] : v.items) inner = std::max(inner, depth_of(item));
  v.depth = checked_depth(inner);
  storage_ = std::make_shared<const Dict>(std::move(v));
}

Value::Value(Callable v) : storage_(std::make_shared<const Callable>(std::move(v))) {}

const Value* Dict::find(const Value& key) const {
  for (const auto& [known, value] : items) {
    if (equal(known, key)) return &value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [known, value] : items) {
    if (known.string() != nullptr && *known.string() == key) return &value;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  for (auto& [known, old] : items) {
    if (equal(known, key)) {
      old = std::move(value);
      return;
    }
  }
  items.emplace_back(std::move(key), std::move(value));
}

const Value* Arguments::find(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [known, value] : named) {
    if (known == name) return &value;
  }
  return nullptr;
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (value.boolean() != nullptr) return "bool";
  if (value.integer() != nullptr) return "int";
  if (value.real() != nullptr) return "float";
  if (value.string() != nullptr) return "str";
  if (const List* list = value.list()) return list->is_tuple ? "tuple" : "list";
  if (value.dict() != nullptr) return "dict";
  return value.callable() != nullptr ? "function" : "namespace";
}

bool as_integer(const Value& value, int64_t& number) {
  if (const bool* b = value.boolean()) return number = *b, true;
  if (const int64_t* i = value.integer()) return number = *i, true;
  return false;
}

bool as_number(const Value& value, double& number) {
  int64_t integer = 0;
  if (as_integer(value, integer)) return number = static_cast<double>(integer), true;
  if (const double* d = value.real()) return number = *d, true;
  return false;
}

bool truthy(const Value& value) {
  double number = 0;
  if (as_number(value, number)) return number != 0;
  if (const std::string* s = value.string()) return !s->empty();
  if (const List* list = value.list()) return !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->items.empty();
  return value.name_space() != nullptr || value.callable() != nullptr;
}

bool equal(const Value& a, const Value& b) {
  int64_t i = 0, j = 0;
  if (as_integer(a, i) && as_integer(b, j)) return i == j;
  double x = 0, y = 0;
  if (as_number(a, x) && as_number(b, y)) return x == y;
  if (a.string() != nullptr && b.string() != nullptr) return *a.string() == *b.string();
  if (a.list() != nullptr && b.list() != nullptr) {
    if (a.list()->is_tuple != b.list()->is_tuple) return false;
    return a.list() == b.list() || std::equal(a.list()->items.begin(), a.list()->items.end(), b.list()->items.begin(),
                                              b.list()->items.end(), equal);
  }
  if (a.dict() != nullptr && b.dict() != nullptr) {
    if (a.dict()->items.size() != b.dict()->items.size()) return false;
    return std::all_of(a.dict()->items.begin(), a.dict()->items.end(), [&](const auto& item) {
      const Value* other = b.dict()->find(item.first);
      return other != nullptr && equal(item.second, *other);
    });
  }
  if (a.name_space() != nullptr) return a.name_space() == b.name_space();
  if (a.callable() != nullptr) return a.callable() == b.callable();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(const Value& a, const Value& b) {
  defined(a);
  defined(b);
  int64_t i = 0, j = 0;
  if (as_integer(a, i) && as_integer(b, j)) return i < j ? -1 : i > j ? 1 : 0;
  double x = 0, y = 0;
  if (as_number(a, x) && as_number(b, y)) return order(x, y);
  if (a.string() != nullptr && b.string() != nullptr) return a.string()->compare(*b.string());
  if (a.list() != nullptr && b.list() != nullptr && a.list()->is_tuple == b.list()->is_tuple) {
    const auto& left = a.list()->items;
    const auto& right = b.list()->items;
    for (size_t k = 0; k < std::min(left.size(), right.size()); ++k) {
      if (!equal(left[k], right[k])) return compare(left[k], right[k]);
    }
    return order(static_cast<double>(left.size()), static_cast<double>(right.size()));
  }
  throw RenderFailure(fmt::format("{} and {} have no order", type_name(a), type_name(b)));
}

bool contains(const Value& container, const Value& item) {
  if (const std::string* text = container.string()) {
    if (item.string() == nullptr) throw RenderFailure(fmt::format("a {} is never in a string", type_name(item)));
    return text->find(*item.string()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item) != nullptr;
  if (container.is_undefined()) return false;
  const auto items = items_of(container);
  return std::any_of(items.begin(), items.end(), [&](const Value& v) { return equal(v, item); });
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string to_repr(const Value& value) {
  if (const std::string* text = value.string()) return quoted_text(*text);
  std::string out;
  if (const List* list = value.list()) {
    for (const Value& item : list->items) out += (out.empty() ? "" : ", ") + to_repr(item);
    if (list->is_tuple) return fmt::format("({}{})", out, list->items.size() == 1 ? "," : "");
    return fmt::format("[{}]", out);
  }
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) out += (out.empty() ? "" : ", ") + to_repr(key) + ": " + to_repr(item);
    return fmt::format("{{{}}}", out);
  }
  return value.is_undefined() ? "Undefined" : to_text(value);
}

std::string to_text(const Value& value) {
  if (const std::string* text = value.string()) return *text;
  if (const bool* b = value.boolean()) return *b ? "True" : "False";
  if (const int64_t* i = value.integer()) return fmt::format("{}", *i);
  if (const double* d = value.real()) return float_repr(*d);
  if (value.is_none()) return "None";
  if (value.is_undefined()) return "";
  if (const Callable* callable = value.callable()) return fmt::format("<function {}>", callable->name);
  return value.name_space() != nullptr ? "<Namespace>" : to_repr(value);
}

std::vector<Value> items_of(const Value& value) {
  std::vector<Value> items;
  if (const List* list = value.list()) return list->items;
  if (const Dict* dict = value.dict()) {
    for (const auto& item : dict->items) items.push_back(item.first);
    return items;
  }
  if (const std::string* text = value.string()) {
    for (size_t at = 0; at < text->size();) {
      const size_t begin = at;
      text::next_char(*text, at);
      items.emplace_back(text->substr(begin, at - begin));
    }
    return items;
  }
  if (!value.is_undefined()) throw RenderFailure(fmt::format("a {} cannot be looped over", type_name(value)));
  return items;
}

int64_t length_of(const Value& value) {
  if (const std::string* text = value.string()) return static_cast<int64_t>(text::count_chars(*text));
  if (const List* list = value.list()) return static_cast<int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->items.size());
  if (value.is_undefined()) return 0;
  throw RenderFailure(fmt::format("a {} has no length", type_name(value)));
}

const Value& defined(const Value& value) {
  if (const Undefined* undefined = value.undefined()) {
    throw RenderFailure(fmt::format("{} is undefined", undefined->name.empty() ? "a value" : undefined->name));
  }
  return value;
}

}  // namespace lockstep::jinja
