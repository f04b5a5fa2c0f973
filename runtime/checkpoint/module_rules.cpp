#include "runtime/checkpoint/module_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kMaxPatterns = 1024;

/// Whether `text` is a name without the characters of an expression; a dot counts as itself.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
  });
}

/// Whether whole components of `name` are `part`, or `name` ends with it.
bool has_part(std::string_view name, std::string_view part) {
  while (part.starts_with('.')) part.remove_prefix(1);
  while (part.ends_with('.')) part.remove_suffix(1);
  if (part.empty()) return false;
  if (name.ends_with(part)) return true;
  for (size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
    const size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) return true;
  }
  return false;
}

/// Whether `name` up to its end or to a dot is `pattern`, in which * stands for any characters, ? for one. Each * first
/// takes nothing and later one more character, so the time is at most the product of the lengths.
bool fits_wildcard(std::string_view name, std::string_view pattern) {
  const auto ends = [&](size_t at) { return at == name.size() || name[at] == '.'; };
  size_t n = 0, p = 0, star = std::string_view::npos, resumed = 0;
  while (true) {
    if (p == pattern.size() && ends(n)) return true;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resumed = n;
    } else if (n < name.size() && p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++n;
      ++p;
    } else if (star != std::string_view::npos && resumed < name.size()) {
      p = star + 1;
      n = ++resumed;
    } else {
      return false;
    }
  }
}

}  // namespace

Result<ModuleRules> ModuleRules::compile(std::span<const ModuleRule> rules, std::string_view origin) {
  ModuleRules compiled;
  for (const ModuleRule& rule : rules) {
    auto& all = compiled.rules_;
    if (rule.match == ModuleRule::Match::kName && !all.empty() && all.back().rule.match == rule.match &&
        all.back().rule.module == rule.module) {
      all.back().names.insert(rule.text);
      continue;
    }
    Compiled& added = all.emplace_back(Compiled{rule});
    if (rule.match == ModuleRule::Match::kName) added.names.insert(rule.text);
    const bool is_part = rule.match == ModuleRule::Match::kPart;
    if (is_part || rule.match == ModuleRule::Match::kPattern || rule.match == ModuleRule::Match::kWildcard)
      ++compiled.patterns_;
    if (rule.match == ModuleRule::Match::kPattern || (is_part && !is_plain(rule.text))) {
      const std::string expression = is_part ? fmt::format("(?:{})(?:(?<=\\.)|(?=\\.|$))", rule.text) : rule.text;
      LOCKSTEP_TRY(added.pattern, ModulePattern::compile(expression, origin));
    }
  }
  if (compiled.patterns_ > kMaxPatterns) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[runtime/checkpoint] cannot use {}: found {} rules for names of modules, expected at most "
                    "{}; join some of them",
                    origin, compiled.patterns_, kMaxPatterns)};
  }
  return compiled;
}

Result<bool> ModuleRules::matches(const Compiled& compiled, std::string_view name) {
  switch (compiled.rule.match) {
    case ModuleRule::Match::kEvery: return true;
    case ModuleRule::Match::kName: return compiled.names.contains(name);
    case ModuleRule::Match::kWildcard: return fits_wildcard(name, compiled.rule.text);
    case ModuleRule::Match::kPart:
      if (has_part(name, compiled.rule.text)) return true;
      break;
    case ModuleRule::Match::kPattern: break;
  }
  return compiled.pattern ? compiled.pattern->matches(name) : Result<bool>(false);
}

Result<std::optional<QuantisedModule>> ModuleRules::find(std::span<const std::string> names) const {
  for (const Compiled& compiled : rules_) {
    for (const std::string& name : names) {
      LOCKSTEP_TRY(const bool is_match, matches(compiled, name));
      if (is_match) return compiled.rule.module;
    }
  }
  return std::optional<QuantisedModule>();
}

}  // namespace lockstep::checkpoint
