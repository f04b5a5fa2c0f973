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
  std::string_view parameters = {};  // with blanks between them
};

template <Ends kEnds>
Value strip(const Value& self, const Arguments& arguments, Budget&) {
  const Value* chars = arguments.find(0, "chars");
  return strip_text(*self.string(), chars == nullptr || chars->is_none() ? nullptr : &string_in(*chars), kEnds);
}

/// The offset of the first character that is (or is not) white space, as `wanted`.
size_t find_white_space(std::string_view text, size_t begin, bool wanted) {
  for (size_t at = begin; at < text.size(); begin = at) {
    if (is_space(text::next_char(text, at)) == wanted) return begin;
  }
  return text.size();
}

std::vector<Value> split_at_white_space(std::string_view text, int64_t most) {
  std::vector<Value> parts;
  for (size_t begin = find_white_space(text, 0, false); begin < text.size();) {
    if (most-- == 0) {
      parts.emplace_back(text.substr(begin));
      break;
    }
    const size_t end = find_white_space(text, begin, true);
    parts.emplace_back(text.substr(begin, end - begin));
    begin = find_white_space(text, end, false);
  }
  return parts;
}

/// The part of a string that the arguments `start` and `end` choose, in characters.
struct Part {
  std::string_view text;
  int64_t begin = 0;
  bool exists = true;  // Python finds nothing in a part that begins behind its end
};

Part part_of(const std::string& text, const Arguments& arguments) {
  const auto given = [&](size_t index) {
    const Value* bound = arguments.find(index, index == 1 ? "start" : "end");
    return bound == nullptr || bound->is_none() ? nullptr : bound;
  };
  if (given(1) == nullptr && given(2) == nullptr) return {text};
  const auto size = static_cast<int64_t>(text::count_chars(text));
  const auto bound = [&](size_t index, int64_t open) {
    if (given(index) == nullptr) return open;
    const int64_t at = integer_in(*given(index));
    return at < 0 ? std::max<int64_t>(at + size, 0) : at;
  };
  const int64_t begin = bound(1, 0);
  const int64_t end = std::min(bound(2, size), size);
  if (begin > end) return {.text = {}, .begin = begin, .exists = false};
  size_t from = 0;
  for (int64_t i = 0; i < begin; ++i) text::next_char(text, from);
  size_t to = from;
  for (int64_t i = begin; i < end; ++i) text::next_char(text, to);
  return {std::string_view(text).substr(from, to - from), begin};
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
  const Value* given = arguments.find(0, "sep");
  int64_t most = integer_argument(arguments, 1, "maxsplit", -1);
  if (given == nullptr || given->is_none()) {
    if (most >= 0) throw RenderFailure("rsplit with maxsplit needs a separator");
    return split(self, arguments, budget);
  }
  const std::string& separator = string_in(*given);
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
  budget.bytes(self.string()->size());
  return List{split_lines(*self.string(), flag_argument(arguments, 0, "keepends", false))};
}

template <bool kStart>
Value starts_or_ends(const Value& self, const Arguments& arguments, Budget&) {
  const Value* affix = arguments.find(0, kStart ? "prefix" : "suffix");
  if (affix == nullptr) throw RenderFailure("startswith and endswith need a string");
  const Part part = part_of(*self.string(), arguments);
  const auto matches = [&](const Value& v) {
    const std::string& sought = string_in(v);
    return part.exists && (kStart ? part.text.starts_with(sought) : part.text.ends_with(sought));
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
  const auto& sought = string_argument(arguments, 0, "sub");
  budget.step(1 + self.string()->size() / 64);
  const Part part = part_of(*self.string(), arguments);
  const size_t at = !part.exists ? std::string_view::npos : kFirst ? part.text.find(sought) : part.text.rfind(sought);
  if (at != std::string_view::npos) {
    return part.begin + static_cast<int64_t>(text::count_chars(part.text.substr(0, at)));
  }
  if (kMustBeThere) throw RenderFailure("substring not found");
  return int64_t{-1};
}

Value count(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto& sought = string_argument(arguments, 0, "sub");
  budget.step(1 + self.string()->size() / 64);
  const Part part = part_of(*self.string(), arguments);
  if (!part.exists) return int64_t{0};
  if (sought.empty()) return static_cast<int64_t>(text::count_chars(part.text)) + 1;
  return static_cast<int64_t>(split_text(part.text, sought, -1).size()) - 1;
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

template <bool kUpper>
Value in_case(const Value& self, const Arguments&, Budget&) {
  return is_in_case(*self.string(), kUpper);
}

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
    Entry{"strip", strip<Ends::kBoth>, "chars"},
    Entry{"lstrip", strip<Ends::kLeft>, "chars"},
    Entry{"rstrip", strip<Ends::kRight>, "chars"},
    Entry{"split", split, "sep maxsplit"},
    Entry{"rsplit", rsplit, "sep maxsplit"},
    Entry{"splitlines", splitlines, "keepends"},
    Entry{"startswith", starts_or_ends<true>, "prefix start end"},
    Entry{"endswith", starts_or_ends<false>, "suffix start end"},
    Entry{"upper", mapped<upper_case>},
    Entry{"lower", mapped<lower_case>},
    Entry{"title", mapped<title_case>},
    Entry{"capitalize", mapped<capitalize>},
    Entry{"replace", replace, "old new count"},
    Entry{"find", find<true, false>, "sub start end"},
    Entry{"rfind", find<false, false>, "sub start end"},
    Entry{"index", find<true, true>, "sub start end"},
    Entry{"rindex", find<false, true>, "sub start end"},
    Entry{"count", count, "sub start end"},
    Entry{"join", join, "iterable"},
    Entry{"isspace", all_chars<is_space>},
    Entry{"isdigit", all_chars<is_digit>},
    Entry{"isalpha", all_chars<is_alpha>},
    Entry{"isalnum", all_chars<is_alnum>},
    Entry{"islower", in_case<false>},
    Entry{"isupper", in_case<true>},
    Entry{"removeprefix", remove_affix<true>, "prefix"},
    Entry{"removesuffix", remove_affix<false>, "suffix"},
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
                                     Entry{"get", dict_get, "key default"}, Entry{"copy", dict_copy}};

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

constexpr std::array kListMethods = {Entry{"index", list_index, "value"}, Entry{"count", list_count, "value"},
                                     Entry{"append", refused, "*"},       Entry{"extend", refused, "*"},
                                     Entry{"insert", refused, "*"},       Entry{"pop", refused, "*"}};

template <typename Methods>
Value bind(const Methods& methods, const Value& self, std::string_view name, Budget& budget) {
  for (const Entry& entry : methods) {
    if (entry.name != name) continue;
    return Callable{std::string(name), [self, &entry, &budget](const Arguments& arguments) {
                      check_arguments(entry.name, entry.parameters, arguments);
                      return entry.method(self, arguments, budget);
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
