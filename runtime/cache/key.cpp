#include "runtime/cache/key.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/core/digest.h"

namespace lockstep::cache {
namespace {

constexpr std::string_view kNone = "none";
constexpr size_t kShortDigits = 12;

using Field = std::pair<std::string, std::string>;

const std::string* value_of(const device::ArtifactKey& key, const std::string& name) {
  const auto found = std::ranges::find(key.fields, name, &Field::first);
  return found == key.fields.end() ? nullptr : &found->second;
}

std::string quoted(const std::string& value) { return fmt::format("\"{}\"", value); }

bool is_digest(const std::string& value) {
  return value.size() >= 40 &&
         std::ranges::all_of(value, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string address_of(const device::ArtifactKey& key) {
  Sha256 hash;
  const auto add = [&](const std::string& text) { hash.add(fmt::format("{}:", text.size())).add(text); };
  hash.add("lockstep artifact 1\n");
  add(key.backend);
  for (const auto& [name, value] : key.fields) {
    add(name);
    add(value);
  }
  return hash.hex();
}

std::vector<std::string> unknown_fields(const device::ArtifactKey& key) {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : key.fields) {
    if (value.empty()) unknown.push_back(name);
  }
  return unknown;
}

std::vector<Difference> differences(const device::ArtifactKey& found, const device::ArtifactKey& expected) {
  std::vector<Difference> differ;
  if (found.backend != expected.backend) {
    differ.push_back({"backend", quoted(found.backend), quoted(expected.backend)});
  }
  for (const auto& [name, value] : expected.fields) {
    const std::string* there = value_of(found, name);
    if (there != nullptr && (value.empty() || *there == value)) continue;
    differ.push_back({name, there == nullptr ? std::string(kNone) : quoted(*there), quoted(value)});
  }
  for (const auto& [name, value] : found.fields) {
    if (value_of(expected, name) == nullptr) differ.push_back({name, quoted(value), std::string(kNone)});
  }
  return differ;
}

std::string to_text(const std::vector<Difference>& differences) {
  const auto shown = [](const std::string& quoted_value, const std::string& other) {
    const std::string value = quoted_value.size() > 2 ? quoted_value.substr(1, quoted_value.size() - 2) : "";
    if (!is_digest(value)) return quoted_value;
    const std::string start = value.substr(0, kShortDigits);
    return other.starts_with("\"" + start) ? quoted_value : fmt::format("{}…", start);
  };
  std::vector<std::string> parts;
  for (const Difference& d : differences) {
    parts.push_back(
        fmt::format("{}: found {}, expected {}", d.field, shown(d.found, d.expected), shown(d.expected, d.found)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace lockstep::cache
