#include <fmt/format.h>

#include <array>

#include "runtime/text/jinja/library.h"

namespace lockstep::jinja {

void check_member(std::string_view name) {
  if (name.starts_with('_')) throw RenderFailure(fmt::format("a namespace takes no name that begins with _: {}", name));
}

namespace {

constexpr int64_t kMaxRange = 100'000;  // as in jinja2's sandbox

Value range(const Arguments& arguments, Budget& budget) {
  const size_t count = arguments.positional.size();
  if (count < 1 || count > 3) throw RenderFailure("range takes one to three integers");
  const int64_t begin = count == 1 ? 0 : integer_in(arguments.positional[0]);
  const int64_t end = integer_in(arguments.positional[count == 1 ? 0 : 1]);
  const int64_t step = count == 3 ? integer_in(arguments.positional[2]) : 1;
  if (step == 0) throw RenderFailure("range takes no step of 0");
  List numbers;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<int64_t>(numbers.items.size()) == kMaxRange) {
      throw RenderFailure(fmt::format("a range has more than {} numbers", kMaxRange));
    }
    numbers.items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  budget.step(numbers.items.size());
  return numbers;
}

Value raise_exception(const Arguments& arguments) {
  throw RenderFailure(arguments.positional.empty() ? "raised" : to_text(arguments.positional[0]));
}

Dict members_of(const Arguments& arguments) {
  Dict members;
  for (const Value& value : arguments.positional) {
    if (value.dict() == nullptr) throw RenderFailure(fmt::format("found a {}, expected a dict", type_name(value)));
    for (const auto& [key, item] : value.dict()->items) members.set(key, item);
  }
  for (const auto& [name, value] : arguments.named) members.set(Value(name), value);
  return members;
}

Value make_namespace(const Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  space->members = members_of(arguments);
  for (const auto& member : space->members.items) {
    check_member(to_text(member.first));
    if (member.second.name_space() != nullptr) throw RenderFailure("a namespace cannot hold a namespace");
  }
  return space;
}

Value strftime(const Arguments& arguments, const std::tm& now) {
  const auto& given = string_argument(arguments, 0, "format");
  if (given.size() > 256) throw RenderFailure("a date format is too long");
  std::string format;
  for (size_t i = 0; i < given.size(); ++i) {
    const char code = given[i] == '%' && i + 1 < given.size() ? given[++i] : '\0';
    if (code == 'Z' || code == 'z') continue;  // Python's time has no zone
    if (code == 'f') {
      format += "000000";  // microseconds
    } else if (code != '\0') {
      format += {'%', code};
    } else {
      format += given[i];
    }
  }
  if (format.empty()) return "";
  std::array<char, 8192> buffer{};
  return std::string(buffer.data(), std::strftime(buffer.data(), buffer.size(), format.c_str(), &now));
}

}  // namespace

Value function_named(std::string_view name, const std::optional<std::tm>& now, Budget& budget) {
  if (name == "range") {
    return Callable{"range", [&budget](const Arguments& arguments) { return range(arguments, budget); }};
  }
  if (name == "raise_exception") return Callable{"raise_exception", raise_exception};
  if (name == "namespace") return Callable{"namespace", make_namespace};
  if (name == "dict") return Callable{"dict", [](const Arguments& arguments) { return Value(members_of(arguments)); }};
  if (name == "strftime_now" && now) {
    return Callable{"strftime_now", [now = *now](const Arguments& arguments) { return strftime(arguments, now); }};
  }
  return Undefined{fmt::format("'{}'", name)};
}

}  // namespace lockstep::jinja
