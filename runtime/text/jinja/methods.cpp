// Methods of strings, lists and dictionaries, and `value[key]`.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/text/jinja/library.h"
#include "runtime/text/unicode.h"

namespace lockstep::jinja {
namespace {

using Method = Value (*)(const Value& self, const Arguments& arguments, Budget& budget);
struct Entry {
  std::string_view name;
  Method method;
};

template <Ends kEnds>
Value strip(const Value& self, const Arguments& arguments, Budget&) {
  const Value* chars = arguments.find(0, "chars");
  return strip_text(*self.string(), chars == nullptr || chars->is_none() ? nullptr : &string_in(*chars), kEnds);
}

/// The offset of the first character that is (or is not) white space, as `wanted`.
size_t find_white_space(std::string_view text, size_t begin, bool wanted) {
  for (size_t at = begin; at < text.size(); begin = at) {
    if (text::is_white_space(text::next_char(text, at)) == wanted) return begin;
  }
  return text.size();
}

std::vector<Value> split_at_white_space(std::string_view text, int64_t most) {
  std::vector<Value> parts;
  for (size_t begin = find_white_space(text, 0, false); begin < text.size();) {
    if (most-- == 0) {
      parts.emplace_back(strip_text(text.substr(begin), nullptr, Ends::kRight));
      break;
    }
    const size_t end = find_white_space(text, begin, true);
    parts.emplace_back(text.substr(begin, end - begin));
    begin = find_white_space(text, end, false);
  }
  return parts;
}

Value split(const Value& self, const Arguments& arguments, Budget& budget) {
  const Value* separator = arguments.find(0, "sep");
  const int64_t most = integer_argument(arguments, 1, "maxsplit", -1);
  budget.bytes(self.string()->size());
  budget.step(self.string()->size());
  if (separator == nullptr || separator->is_none()) return List{split_at_white_space(*self.string(), most)};
  return List{split_text(*self.string(), string_in(*separator), most)};
}

Value rsplit(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto& separator = string_argument(arguments, 0, "sep");
  int64_t most = integer_argument(arguments, 1, "maxsplit", -1);
  if (separator.empty()) throw RenderFailure("the separator is empty");
  std::string_view text = *self.string();
  budget.bytes(text.size());
  std::vector<Value> parts;
  for (; most != 0; --most) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.emplace_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.emplace_back(text);
  std::reverse(parts.begin(), parts.end());
  return List{std::move(parts)};
}

Value splitlines(const Value& self, const Arguments& arguments, Budget& budget) {
  const bool keep = flag_argument(arguments, 0, "keepends", false);
  const std::string& text = *self.string();
  budget.bytes(text.size());
  std::vector<Value> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of("\n\r", begin), text.size());
    size_t next = std::min(end + 1, text.size());
    if (end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n') ++next;
    lines.emplace_back(text.substr(begin, (keep ? next : end) - begin));
    begin = next;
  }
  return List{std::move(lines)};
}

template <bool kStart>
Value starts_or_ends(const Value& self, const Arguments& arguments, Budget&) {
  const Value* affix = arguments.find(0, kStart ? "prefix" : "suffix");
  if (affix == nullptr) throw RenderFailure("startswith and endswith need a string");
  const std::string& text = *self.string();
  const auto matches = [&](const Value& v) {
    return kStart ? text.starts_with(string_in(v)) : text.ends_with(string_in(v));
  };
  if (const List* list = affix->list()) return std::any_of(list->items.begin(), list->items.end(), matches);
  return matches(*affix);
}

template <std::string (*kMap)(std::string_view)>
Value mapped(const Value& self, const Arguments&, Budget& budget) {
  budget.bytes(self.string()->size());
  return kMap(*self.string());
}

Value replace(const Value& self, const Arguments& arguments, Budget& budget) {
  return replace_text(*self.string(), string_argument(arguments, 0, "old"), string_argument(arguments, 1, "new"),
                      integer_argument(arguments, 2, "count", -1), budget);
}

template <bool kFirst, bool kMustBeThere>
Value find(const Value& self, const Arguments& arguments, Budget& budget) {
  const std::string& text = *self.string();
  budget.step(1 + text.size() / 64);
  const size_t at =
      kFirst ? text.find(string_argument(arguments, 0, "sub")) : text.rfind(string_argument(arguments, 0, "sub"));
  if (at != std::string::npos) return static_cast<int64_t>(text::count_chars(std::string_view(text).substr(0, at)));
  if (kMustBeThere) throw RenderFailure("substring not found");
  return int64_t{-1};
}

Value count(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto& part = string_argument(arguments, 0, "sub");
  budget.step(1 + self.string()->size() / 64);
  if (part.empty()) return static_cast<int64_t>(text::count_chars(*self.string())) + 1;
  return static_cast<int64_t>(split_text(*self.string(), part, -1).size()) - 1;
}

Value join(const Value& self, const Arguments& arguments, Budget& budget) {
  const Value* items = arguments.find(0, "iterable");
  if (items == nullptr) throw RenderFailure("join needs a list");
  std::string out;
  bool first = true;
  for (const Value& item : items_of(*items)) {
    if (!std::exchange(first, false)) out += *self.string();
    out += string_in(item);
    budget.bytes(self.string()->size() + string_in(item).size());
  }
  return out;
}

template <bool (*kIs)(char32_t)>
Value all_chars(const Value& self, const Arguments&, Budget&) {
  const std::string& text = *self.string();
  for (size_t at = 0; at < text.size();) {
    if (!kIs(text::next_char(text, at))) return false;
  }
  return !text.empty();
}

bool is_alpha(char32_t c) { return text::is_word(c) && !text::is_numeric(c) && !text::is_mark(c) && c != '_'; }
bool is_alnum(char32_t c) { return is_alpha(c) || text::is_numeric(c); }

template <bool kPrefix>
Value remove_affix(const Value& self, const Arguments& arguments, Budget&) {
  std::string_view text = *self.string();
  const auto& affix = string_argument(arguments, 0, kPrefix ? "prefix" : "suffix");
  if (kPrefix && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!kPrefix && text.ends_with(affix)) text.remove_suffix(affix.size());
  return text;
}

constexpr std::array kStringMethods = {
    Entry{"strip", strip<Ends::kBoth>},
    Entry{"lstrip", strip<Ends::kLeft>},
    Entry{"rstrip", strip<Ends::kRight>},
    Entry{"split", split},
    Entry{"rsplit", rsplit},
    Entry{"splitlines", splitlines},
    Entry{"startswith", starts_or_ends<true>},
    Entry{"endswith", starts_or_ends<false>},
    Entry{"upper", mapped<text::to_upper>},
    Entry{"lower", mapped<text::to_lower>},
    Entry{"title", mapped<title_case>},
    Entry{"capitalize", mapped<capitalize>},
    Entry{"replace", replace},
    Entry{"find", find<true, false>},
    Entry{"rfind", find<false, false>},
    Entry{"index", find<true, true>},
    Entry{"count", count},
    Entry{"join", join},
    Entry{"isspace", all_chars<text::is_white_space>},
    Entry{"isdigit", all_chars<text::is_numeric>},
    Entry{"isalpha", all_chars<is_alpha>},
    Entry{"isalnum", all_chars<is_alnum>},
    Entry{"removeprefix", remove_affix<true>},
    Entry{"removesuffix", remove_affix<false>},
};

Value dict_items(const Value& self, const Arguments&, Budget& budget) {
  List pairs;
  budget.step(self.dict()->items.size());
  for (const auto& [key, value] : self.dict()->items) pairs.items.emplace_back(List{{key, value}, /*is_tuple=*/true});
  return pairs;
}
Value dict_keys(const Value& self, const Arguments&, Budget&) { return List{items_of(self)}; }
Value dict_values(const Value& self, const Arguments&, Budget&) {
  List values;
  for (const auto& item : self.dict()->items) values.items.push_back(item.second);
  return values;
}
Value dict_get(const Value& self, const Arguments& arguments, Budget&) {
  const Value* key = arguments.find(0, "key");
  if (key == nullptr) throw RenderFailure("get needs a key");
  if (const Value* found = self.dict()->find(*key)) return *found;
  const Value* fallback = arguments.find(1, "default");
  return fallback == nullptr ? Value() : *fallback;
}
Value dict_copy(const Value& self, const Arguments&, Budget&) { return self; }

constexpr std::array kDictMethods = {Entry{"items", dict_items}, Entry{"keys", dict_keys}, Entry{"values", dict_values},
                                     Entry{"get", dict_get}, Entry{"copy", dict_copy}};

Value list_index(const Value& self, const Arguments& arguments, Budget&) {
  const Value* item = arguments.find(0, "value");
  if (item == nullptr) throw RenderFailure("index needs a value");
  const auto& items = self.list()->items;
  const auto at = std::find_if(items.begin(), items.end(), [&](const Value& v) { return equal(v, *item); });
  if (at == items.end()) throw RenderFailure(fmt::format("{} is not in the list", to_repr(*item)));
  return static_cast<int64_t>(at - items.begin());
}
Value list_count(const Value& self, const Arguments& arguments, Budget&) {
  const Value* item = arguments.find(0, "value");
  if (item == nullptr) throw RenderFailure("count needs a value");
  return static_cast<int64_t>(std::count_if(self.list()->items.begin(), self.list()->items.end(),
                                            [&](const Value& v) { return equal(v, *item); }));
}
/// Lists are immutable in transformers' sandbox.
Value refused(const Value&, const Arguments&, Budget&) { throw RenderFailure("a template must not change a list"); }

constexpr std::array kListMethods = {Entry{"index", list_index}, Entry{"count", list_count}, Entry{"append", refused},
                                     Entry{"extend", refused},   Entry{"insert", refused},   Entry{"pop", refused}};

template <typename Methods>
Value bind(const Methods& methods, const Value& self, std::string_view name, Budget& budget) {
  for (const Entry& entry : methods) {
    if (entry.name != name) continue;
    return Callable{std::string(name), [self, method = entry.method, &budget](const Arguments& arguments) {
                      return method(self, arguments, budget);
                    }};
  }
  return Undefined{fmt::format("'{}' of a {}", name, type_name(self))};
}

}  // namespace

Value method_of(const Value& value, std::string_view name, Budget& budget) {
  if (value.string() != nullptr) return bind(kStringMethods, value, name, budget);
  if (value.dict() != nullptr) return bind(kDictMethods, value, name, budget);
  if (value.list() != nullptr) return bind(kListMethods, value, name, budget);
  return Undefined{fmt::format("'{}' of a {}", name, type_name(value))};
}

Value item_of(const Value& value, const Value& key) {
  defined(value);
  const Undefined missing{fmt::format("{} of a {}", to_repr(key), type_name(value))};
  if (const Dict* dict = value.dict()) {
    const Value* found = dict->find(key);
    return found == nullptr ? Value(missing) : *found;
  }
  if (const Namespace* space = value.name_space()) {
    const Value* found = space->members.find(key);
    return found == nullptr ? Value(missing) : *found;
  }
  int64_t index = 0;
  if (!as_integer(key, index)) return missing;
  if (const List* list = value.list()) {
    const auto size = static_cast<int64_t>(list->items.size());
    if (index < 0) index += size;
    return index < 0 || index >= size ? Value(missing) : list->items[static_cast<size_t>(index)];
  }
  if (const std::string* text = value.string()) {
    const int64_t size = length_of(value);
    if (index < 0) index += size;
    if (index < 0 || index >= size) return missing;
    size_t begin = 0;
    for (; index > 0; --index) text::next_char(*text, begin);
    size_t end = begin;
    text::next_char(*text, end);
    return text->substr(begin, end - begin);
  }
  return missing;
}

Value attribute_of(const Value& value, std::string_view name, Budget& budget) {
  defined(value);
  Value method = method_of(value, name, budget);
  return method.is_undefined() ? item_of(value, Value(name)) : method;
}

}  // namespace lockstep::jinja
