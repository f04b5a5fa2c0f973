// Text to token ids and back, from a Hugging Face tokenizer.json:
//
//   text ─► added tokens cut out ─► normaliser ─► pre-tokeniser ─► model ─► post-processor ─► ids
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

/// The text of a stream of ids, as far as it is known after each. One stream, one thread.
class DecodeStream {
 public:
  virtual ~DecodeStream() = default;
  /// The text that `id` completes; may be empty. Fails with `kInvalidArgument` on an unknown id, which changes nothing.
  virtual Result<std::string> put(int32_t id) = 0;
  /// Ends the stream; nothing may be put after it.
  virtual Result<std::string> finish() = 0;
};

/// An immutable tokenizer; every method is thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Fails with `kInvalidArgument` on text that is not UTF-8, naming the byte offset.
  virtual Result<std::vector<int32_t>> encode(std::string_view text, SpecialTokens special) const = 0;

  /// The text of `ids`; bytes that form no character become U+FFFD. Fails with `kInvalidArgument` on an unknown id.
  virtual Result<std::string> decode(const std::vector<int32_t>& ids, SpecialPieces special) const = 0;

  /// A new stream, which the tokenizer outlives.
  virtual std::unique_ptr<DecodeStream> open_stream(SpecialPieces special) const = 0;

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
  StreamDecoder(const Tokenizer& tokenizer, SpecialPieces special) : stream_(tokenizer.open_stream(special)) {}

  /// The text that `id` completes; may be empty. Fails with `kInvalidArgument` on an unknown id, which changes nothing.
  /// Takes time for the id alone, however many came before.
  Result<std::string> put(int32_t id) { return stream_->put(id); }
  /// What was held back. Nothing may be put after it.
  Result<std::string> finish() { return stream_->finish(); }

 private:
  std::unique_ptr<DecodeStream> stream_;
};

}  // namespace lockstep::text
