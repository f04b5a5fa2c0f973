// Text to token ids and back, from a Hugging Face tokenizer.json:
//
//   text ─► added tokens cut out ─► normaliser ─► pre-tokeniser ─► model (BPE) ─► post-processor ─► ids
//   ids ─► pieces ─► decoder ─► text
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::text {

enum class SpecialTokens { kAdd, kOmit };   // on encoding: what the post-processor adds (BOS and the like)
enum class SpecialPieces { kKeep, kSkip };  // on decoding: whether special tokens appear in the text

/// An immutable tokenizer; every method is thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Fails with `kInvalidArgument` on text that is not UTF-8, naming the byte offset.
  virtual Result<std::vector<int32_t>> encode(std::string_view text, SpecialTokens special) const = 0;

  /// The text of `ids`; bytes that form no character become U+FFFD. Fails with `kInvalidArgument` on an unknown id.
  virtual Result<std::string> decode(const std::vector<int32_t>& ids, SpecialPieces special) const = 0;

  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  /// The stored form of a token ("Ġthe"); empty for an unknown id.
  virtual std::optional<std::string> token_of(int32_t id) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  /// One more than the largest id.
  virtual int32_t vocabulary() const = 0;
};

/// Reads `directory`/tokenizer.json. Fails with `kNotFound`, `kInvalidArgument` (damaged, naming the key) or
/// `kUnsupported` (a component that is not known, naming it and those that are).
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& directory);

/// The same from the text of a tokenizer.json; `origin` names it in messages.
Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view json, std::string_view origin);

/// Turns a stream of ids into a stream of text that never splits a character: bytes that do not yet form one are held
/// back until they do, or until the end. The pieces, joined, equal `decode` of all ids.
class StreamDecoder {
 public:
  /// `tokenizer` outlives the decoder.
  StreamDecoder(const Tokenizer& tokenizer, SpecialPieces special);

  /// The text that `id` completes; may be empty.
  Result<std::string> put(int32_t id);
  /// What was held back.
  Result<std::string> finish();

 private:
  const Tokenizer* tokenizer_;
  SpecialPieces special_;
  std::vector<int32_t> ids_;
  size_t prefix_ = 0;  // ids_[prefix_ …] are decoded again at each put
  std::string shown_;  // the text of ids_[prefix_ …] that was already given out
};

}  // namespace lockstep::text
