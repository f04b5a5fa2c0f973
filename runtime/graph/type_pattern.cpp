#include "runtime/graph/type_pattern.h"

#include <charconv>
#include <optional>
#include <vector>

#include "runtime/core/check.h"

namespace lockstep::graph {
namespace {

/// The parts of a pattern: "dt[N,K]" → {"dt", {"N", "K"}}.
struct Parts {
  std::string_view type;
  std::vector<std::string_view> sizes;
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

Parts take_apart(std::string_view pattern) {
  const size_t bracket = pattern.find('[');
  LOCKSTEP_CHECK(bracket != std::string_view::npos && pattern.back() == ']', pattern);
  return {pattern.substr(0, bracket), split(pattern.substr(bracket + 1, pattern.size() - bracket - 2), ',')};
}

/// The size of a pattern's dimension if it is a number instead of a letter.
std::optional<int64_t> literal_size(std::string_view text) {
  int64_t size = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return size;
}

}  // namespace

int64_t Symbols::size(std::string_view letter) const {
  const auto found = sizes_.find(letter);
  LOCKSTEP_CHECK(found != sizes_.end(), letter);
  return found->second;
}

DType Symbols::type(std::string_view letter) const {
  const auto found = types_.find(letter);
  LOCKSTEP_CHECK(found != types_.end(), letter);
  return found->second;
}

bool Symbols::match_type(std::string_view letter, DType actual) {
  if (const std::optional<DType> literal = dtype_from_short_name(letter)) return *literal == actual;
  if (letter == "dt" && !is_float(actual)) return false;
  const auto [found, is_new] = types_.try_emplace(std::string(letter), actual);
  return is_new || found->second == actual;
}

bool Symbols::match_size(std::string_view letter, int64_t actual) {
  if (const std::optional<int64_t> literal = literal_size(letter)) return *literal == actual;
  const auto [found, is_new] = sizes_.try_emplace(std::string(letter), actual);
  return is_new || found->second == actual;
}

bool Symbols::match(std::string_view pattern, const TensorType& actual) {
  for (std::string_view alternative : split(pattern, '|')) {
    const Parts parts = take_apart(alternative);
    if (parts.sizes.size() != actual.shape.rank()) continue;
    Symbols extended = *this;
    bool fits = extended.match_type(parts.type, actual.dtype);
    for (size_t axis = 0; axis < parts.sizes.size() && fits; ++axis) {
      fits = extended.match_size(parts.sizes[axis], actual.shape[axis]);
    }
    if (fits) *this = std::move(extended);
    return fits;
  }
  return false;
}

TensorType Symbols::resolve(std::string_view pattern) const {
  const Parts parts = take_apart(pattern);
  std::vector<int64_t> dims;
  for (std::string_view letter : parts.sizes) {
    const std::optional<int64_t> literal = literal_size(letter);
    dims.push_back(literal ? *literal : size(letter));
  }
  const std::optional<DType> literal = dtype_from_short_name(parts.type);
  return {literal ? *literal : type(parts.type), Shape(std::move(dims))};
}

std::string Symbols::describe(std::string_view pattern) const {
  std::map<std::string_view, std::string> known;  // sorted, without duplicates
  for (std::string_view alternative : split(pattern, '|')) {
    const Parts parts = take_apart(alternative);
    if (const auto found = types_.find(parts.type); found != types_.end()) {
      known.insert_or_assign(parts.type, std::string(to_string(found->second)));
    }
    for (std::string_view letter : parts.sizes) {
      if (const auto found = sizes_.find(letter); found != sizes_.end()) {
        known.insert_or_assign(letter, std::to_string(found->second));
      }
    }
  }
  std::string text;
  for (const auto& [letter, meaning] : known)
    text += fmt::format("{}{}={}", text.empty() ? " with " : ", ", letter, meaning);
  return text;
}

}  // namespace lockstep::graph
