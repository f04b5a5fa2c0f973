#include "runtime/text/merge_tables.h"

#include "runtime/text/json_number.h"

namespace lockstep::text {
namespace {

using nlohmann::json;

/// Receives the parser's events. Every function returns whether to continue.
class Reader final : public json::json_sax_t {
 public:
  bool null() override { return place_ == Place::kRest && add(nullptr); }
  bool boolean(bool value) override { return place_ == Place::kRest && add(value); }
  bool number_float(double, const std::string& text) override {
    const auto value = read_number(text);
    return place_ == Place::kRest && value && add(*value);
  }
  bool binary(json::binary_t&) override { return false; }

  bool number_integer(int64_t value) override {
    if (place_ == Place::kVocabulary) return add_token(value);
    return place_ == Place::kRest && add(value);
  }
  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kVocabulary) return value <= INT64_MAX && add_token(static_cast<int64_t>(value));
    return place_ == Place::kRest && add(value);
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMerges) return add_words(value);
    if (place_ == Place::kPair) return add_half(value);
    return place_ == Place::kRest && add(std::move(value));
  }

  bool key(std::string& value) override {
    key_ = std::move(value);
    return true;
  }

  bool start_object(size_t) override {
    if (place_ != Place::kRest) return false;
    const bool is_vocabulary = is_in_model() && key_ == "vocab" && tables_.vocabulary.empty();
    if (!open(json::object())) return false;
    if (is_vocabulary) place_ = Place::kVocabulary;
    return true;
  }
  bool end_object() override { return close(Place::kVocabulary); }

  bool start_array(size_t) override {
    if (place_ == Place::kMerges) {
      place_ = Place::kPair;
      tables_.merges.emplace_back();
      halves_ = 0;
      return true;
    }
    if (place_ != Place::kRest) return false;
    const bool is_merges = is_in_model() && key_ == "merges" && tables_.merges.empty();
    if (!open(json::array())) return false;
    if (is_merges) place_ = Place::kMerges;
    return true;
  }
  bool end_array() override {
    if (place_ == Place::kPair) {
      place_ = Place::kMerges;
      return halves_ == 2;
    }
    return close(Place::kMerges);
  }

  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

  TokenizerDocument take() { return {std::move(root_), std::move(tables_)}; }
  /// Whether there are both tables, or none.
  bool is_whole() const { return tables_.vocabulary.empty() == tables_.merges.empty(); }

 private:
  enum class Place { kRest, kVocabulary, kMerges, kPair };

  /// Whether the next value is a member of the document's "model".
  bool is_in_model() const { return open_.size() == 2 && open_.back() == model_; }

  /// Adds a value at the current position of the document; null when that is not possible.
  json* put(json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    const auto [member, is_new] = parent.emplace(key_, std::move(value));
    return is_new ? &*member : nullptr;  // a duplicate key: fall back to a plain parse
  }
  bool add(json value) { return put(std::move(value)) != nullptr; }
  bool open(json container) {
    constexpr size_t kDeepest = 64;
    json* const place = put(std::move(container));
    if (place == nullptr || open_.size() >= kDeepest) return false;
    if (open_.size() == 1 && key_ == "model") model_ = place;
    open_.push_back(place);
    return true;
  }
  bool close(Place table) {
    if (place_ != Place::kRest && place_ != table) return false;
    place_ = Place::kRest;
    open_.pop_back();
    return true;
  }

  bool add_token(int64_t id) {
    tables_.vocabulary.emplace_back(std::move(key_), id);
    return true;
  }
  bool add_words(std::string& words) {
    const size_t space = words.find(' ');
    if (space == std::string::npos || words.find(' ', space + 1) != std::string::npos) return false;
    words.erase(space, 1);
    tables_.merges.push_back({words, space});
    return true;
  }
  bool add_half(const std::string& half) {
    MergeTables::Pair& pair = tables_.merges.back();
    pair.both += half;
    if (halves_ == 0) pair.split = half.size();
    return ++halves_ <= 2;
  }

  json root_;
  std::vector<json*> open_;  // the containers around the next value; an open container does not move
  const json* model_ = nullptr;
  std::string key_;
  Place place_ = Place::kRest;
  int halves_ = 0;
  MergeTables tables_;
};

}  // namespace

std::optional<TokenizerDocument> read_with_tables(std::string_view text) {
  Reader reader;
  if (!json::sax_parse(text, &reader) || !reader.is_whole()) return std::nullopt;
  return reader.take();
}

}  // namespace lockstep::text
