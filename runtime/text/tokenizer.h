// Conversion of text to token ids and back, with a Hugging Face tokenizer.json:
//
//   text ─► added tokens cut out ─► normaliser ─► pre-tokeniser ─► model ─► post-processor ─► ids
//   ids ─► pieces ─► decoder ─► text
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::text {

enum class SpecialTokens { kAdd, kOmit };   // on encoding: the tokens of the post-processor (BOS and so on)
enum class SpecialPieces { kKeep, kSkip };  // on decoding: whether special tokens appear in the text

/// The text of a stream of ids, decoded id by id. One stream, one thread.
class DecodeStream {
 public:
  virtual ~DecodeStream() = default;
  /// The text completed by `id`; may be empty. On an unknown id, fails with `kInvalidArgument` and changes nothing.
  virtual Result<std::string> put(int32_t id) = 0;
  /// Ends the stream; nothing may be put after it.
  virtual Result<std::string> finish() = 0;
};

/// An immutable tokenizer; every method is thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Fails with `kInvalidArgument` on text that is not UTF-8, naming the byte offset, and on a character that the
  /// vocabulary cannot represent.
  Result<std::vector<int32_t>> encode(std::string_view text, SpecialTokens special) const;

  /// The same ids; none when there are more than `most`. The time is bounded by `most` as well: of a text that is much
  /// longer, only the beginning is encoded, and it decides. Fails as `encode` does, for the part that is encoded.
  virtual Result<std::optional<std::vector<int32_t>>> encode_within(std::string_view text, SpecialTokens special,
                                                                    size_t most) const = 0;

  /// The text of `ids`; bytes that form no character become U+FFFD. Fails with `kInvalidArgument` on an unknown id.
  virtual Result<std::string> decode(const std::vector<int32_t>& ids, SpecialPieces special) const = 0;

  /// A new stream. The tokenizer outlives it.
  virtual std::unique_ptr<DecodeStream> open_stream(SpecialPieces special) const = 0;

  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  /// The stored form of a token ("Ġthe"); empty for an unknown id.
  virtual std::optional<std::string> token_of(int32_t id) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  /// One more than the largest id.
  virtual int32_t vocabulary() const = 0;
};

/// Names of the files that `load_tokenizer` and `load_chat` (chat_template.h) read in a directory, besides config.json.
std::span<const std::string_view> text_files();

/// Reads `directory`/tokenizer.json with the settings beside it, as transformers' AutoTokenizer does
/// (tokenizer_settings.h); `directory` may be a GGUF file. Fails with `kNotFound`, `kInvalidArgument` (damaged, naming
/// the file and the key) or `kUnsupported` (naming an unknown component and the known ones).
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& directory);

/// Parses the text of a tokenizer.json; `origin` names it in messages.
Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view json, std::string_view origin);

/// Turns a stream of ids into a stream of text without splitting characters: incomplete bytes are held back until they
/// form a character, or until the end. The concatenated pieces equal `decode` of all ids.
class StreamDecoder {
 public:
  /// `tokenizer` outlives the decoder.
  StreamDecoder(const Tokenizer& tokenizer, SpecialPieces special);

  /// Before the first `put`: the text is what `ids` and the ids to come decode to, behind the text of `ids` alone. A
  /// character whose bytes are divided between them is returned whole. After a special id, or one without a token, the
  /// text begins as if there were no `ids`. The time does not depend on their number, except for a run of bytes.
  Result<void> follow(std::span<const int32_t> ids);
  /// The text completed by `id`; may be empty. On an unknown id, fails with `kInvalidArgument` and changes nothing. The
  /// time does not depend on the number of previous ids.
  Result<std::string> put(int32_t id);
  /// Returns the text held back. Nothing may be put after it.
  Result<std::string> finish();

 private:
  /// The part of the stream's next text that is not the text of the ids before.
  std::string own_part(std::string text);

  const Tokenizer* tokenizer_;
  SpecialPieces special_;
  std::unique_ptr<DecodeStream> stream_;
  std::string before_;  // the end of the text of the ids before, which the stream has held back
};

}  // namespace lockstep::text
