#include "runtime/text/vocabulary.h"

#include <fmt/format.h>

namespace lockstep::text {

Result<Vocabulary> Vocabulary::parse(const JsonField& field) {
  if (!field.value().is_object()) return field.invalid("no object", "an object of tokens and ids");
  Vocabulary vocabulary;
  vocabulary.reserve(field.value().size());
  for (const auto& [token, id] : field.value().items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMaxIds) {
      return field.invalid(fmt::format("the id {} of {:?}", id.dump(), token), fmt::format("0 to {}", kMaxIds - 1));
    }
    if (!vocabulary.add(token, id.get<int32_t>())) {
      return field.invalid(fmt::format("the id {} of {:?} a second time", id.dump(), token), "one token for each id");
    }
  }
  return vocabulary;
}

std::optional<Vocabulary> Vocabulary::of(const std::vector<std::pair<std::string, int64_t>>& tokens) {
  Vocabulary vocabulary;
  vocabulary.reserve(tokens.size());
  for (const auto& [token, id] : tokens) {
    if (id < 0 || id >= kMaxIds || !vocabulary.add(token, static_cast<int32_t>(id))) return std::nullopt;
  }
  return vocabulary;
}

bool Vocabulary::add(std::string token, int32_t id) {
  if (id >= end()) tokens_.resize(static_cast<size_t>(id) + 1, nullptr);
  if (tokens_[id] != nullptr) return *tokens_[id] == token;
  const auto [entry, is_new] = ids_.emplace(std::move(token), id);
  if (is_new) tokens_[id] = &entry->first;
  return is_new;
}

void Vocabulary::reserve(size_t tokens) {
  ids_.reserve(tokens);
  tokens_.reserve(tokens);
}

std::vector<int32_t> Vocabulary::byte_tokens() const {
  std::vector<int32_t> ids(256);
  for (int byte = 0; byte < 256; ++byte) ids[byte] = id_of(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  return ids;
}

}  // namespace lockstep::text
