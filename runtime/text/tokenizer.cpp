#include "runtime/text/tokenizer.h"

#include <limits>

#include "runtime/gguf/model_texts.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/class_stages.h"
#include "runtime/text/decoder.h"
#include "runtime/text/model.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/post_processor.h"
#include "runtime/text/pre_tokenizer.h"
#include "runtime/text/text_files.h"
#include "runtime/text/tokenizer_settings.h"
#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

/// The components of a tokenizer.json.
struct Parts {
  std::unique_ptr<Model> model;
  std::unique_ptr<Normalizer> normalizer;       // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
  AddedTokens added;
  PostProcessor post_processor;
  Decoder decoder;

  std::optional<int32_t> id_of(std::string_view token) const {
    if (const AddedToken* found = added.find(token)) return found->id;
    return model->vocabulary().id_of(token);
  }
};

/// Caches the ids of short pieces during one call, because words repeat.
class PieceCache {
 public:
  explicit PieceCache(const Model& model) : model_(&model) {}

  Result<void> encode(const std::string& piece, std::vector<int32_t>& ids) {
    if (piece.size() > kMaxPiece) return model_->encode(piece, ids);
    const auto entry = known_.find(piece);
    if (entry != known_.end()) {
      ids.insert(ids.end(), entry->second.begin(), entry->second.end());
      return ok();
    }
    const size_t begin = ids.size();
    LOCKSTEP_TRY_VOID(model_->encode(piece, ids));
    if (known_.size() < kMaxPieces) known_.emplace(piece, std::vector<int32_t>(ids.begin() + begin, ids.end()));
    return ok();
  }

 private:
  static constexpr size_t kMaxPiece = 64;  // bytes
  static constexpr size_t kMaxPieces = 16 * 1024;

  const Model* model_;
  std::unordered_map<std::string, std::vector<int32_t>> known_;
};

/// The stages of a decoder in order.
class StageChain final : public DecodeStream {
 public:
  StageChain(const Tokenizer& tokenizer, const AddedTokens& added, const Decoder& decoder, SpecialPieces special)
      : tokenizer_(&tokenizer), added_(&added), special_(special) {
    for (const auto& step : decoder) stages_.push_back(step->open());
  }

  Result<std::string> put(int32_t id) override {
    LOCKSTEP_CHECK(!finished_);
    auto token = tokenizer_->token_of(id);
    if (!token) {
      return Error{
          ErrorKind::kInvalidArgument,
          fmt::format("[runtime/text] cannot decode: found id {}, expected an id of the vocabulary, which ends "
                      "before {}; check that the model and the tokenizer belong together",
                      id, tokenizer_->vocabulary())};
    }
    if (special_ == SpecialPieces::kSkip && is_skipped(*token)) return std::string();
    std::vector<Fragment> fragments;
    fragments.push_back({*std::move(token)});
    LOCKSTEP_TRY_VOID(pass(fragments, 0));
    return join(fragments);
  }

  Result<std::string> finish() override {
    LOCKSTEP_CHECK(!finished_);
    finished_ = true;
    std::string text;
    for (size_t i = 0; i < stages_.size(); ++i) {
      std::vector<Fragment> fragments;
      LOCKSTEP_TRY_VOID(stages_[i]->finish(fragments));
      LOCKSTEP_TRY_VOID(pass(fragments, i + 1));
      text += join(fragments);
    }
    return text;
  }

 private:
  /// Sends `fragments` through the stages from `first` on.
  Result<void> pass(std::vector<Fragment>& fragments, size_t first) {
    for (size_t i = first; i < stages_.size(); ++i) {
      std::vector<Fragment> out;
      for (Fragment& fragment : fragments) LOCKSTEP_TRY_VOID(stages_[i]->put(std::move(fragment), out));
      fragments = std::move(out);
    }
    return ok();
  }

  /// As in the tokenizers package, which looks for what a normalizer makes of a special token among special tokens.
  bool is_skipped(std::string_view piece) const {
    const AddedToken* added = added_->find(piece);
    return added != nullptr && added->special;
  }

  static std::string join(const std::vector<Fragment>& fragments) {
    std::string text;
    for (const Fragment& fragment : fragments) text += fragment.text;
    return text;
  }

  const Tokenizer* tokenizer_;
  const AddedTokens* added_;
  SpecialPieces special_;
  std::vector<std::unique_ptr<DecodeStage>> stages_;
  bool finished_ = false;
};

class FileTokenizer final : public Tokenizer {
 public:
  explicit FileTokenizer(Parts parts) : parts_(std::move(parts)) {}

  Result<std::optional<std::vector<int32_t>>> encode_within(std::string_view text, SpecialTokens special,
                                                            size_t most) const override {
    if (const size_t offset = find_invalid_utf8(text); offset != std::string_view::npos) {
      return Error{
          ErrorKind::kInvalidArgument,
          fmt::format("[runtime/text] cannot encode: found byte 0x{:02x} at offset {}, expected UTF-8; convert "
                      "the text",
                      static_cast<uint8_t>(text[offset]), offset)};
    }
    if (text.size() / kUsualBytes > most) {
      LOCKSTEP_TRY(const auto begun, encode_valid(whole_characters(text, most * kUsualBytes), special, 2 * most));
      if (!begun) return std::optional<std::vector<int32_t>>();
    }
    return encode_valid(text, special, most);
  }

  Result<std::string> decode(const std::vector<int32_t>& ids, SpecialPieces special) const override {
    const auto stream = open_stream(special);
    std::string text;
    for (const int32_t id : ids) {
      LOCKSTEP_TRY(const std::string completed, stream->put(id));
      text += completed;
    }
    LOCKSTEP_TRY(const std::string rest, stream->finish());
    return text + rest;
  }

  std::unique_ptr<DecodeStream> open_stream(SpecialPieces special) const override {
    return std::make_unique<StageChain>(*this, parts_.added, parts_.decoder, special);
  }

  std::optional<int32_t> id_of(std::string_view token) const override { return parts_.id_of(token); }

  std::optional<std::string> token_of(int32_t id) const override {
    if (const AddedToken* added = parts_.added.find(id)) return added->piece;
    const auto token = parts_.model->vocabulary().token_of(id);
    return token ? std::optional<std::string>(*token) : std::nullopt;
  }

  bool is_special(int32_t id) const override {
    const AddedToken* added = parts_.added.find(id);
    return added != nullptr && added->special;
  }

  int32_t vocabulary() const override { return std::max(parts_.model->vocabulary().end(), parts_.added.end()); }

 private:
  /// In usual texts an id stands for fewer bytes. The beginning of a longer text is encoded first, since some stages
  /// (normal forms, expressions, merges without a pre-tokenizer) take a text as a whole. A cut changes only ids near
  /// it: with twice the ids that are allowed in its beginning, the whole text has more than those.
  static constexpr size_t kUsualBytes = 16;

  /// At most `bytes` of a longer text.
  static std::string_view whole_characters(std::string_view text, size_t bytes) {
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
    return text.substr(0, bytes);
  }

  /// Encodes UTF-8; stops after more than `most` ids.
  Result<std::optional<std::vector<int32_t>>> encode_valid(std::string_view text, SpecialTokens special,
                                                           size_t most) const {
    std::vector<int32_t> ids;
    if (special == SpecialTokens::kAdd) ids = parts_.post_processor.before;
    PieceCache cache(*parts_.model);
    for (const Segment& segment : parts_.added.cut_raw(text)) {
      if (ids.size() > most) break;
      if (segment.token != nullptr) {
        ids.push_back(segment.token->id);
      } else {
        LOCKSTEP_TRY_VOID(encode_raw(segment.text, segment.text.data() == text.data(), most, cache, ids));
      }
    }
    if (special == SpecialTokens::kAdd) {
      ids.insert(ids.end(), parts_.post_processor.after.begin(), parts_.post_processor.after.end());
    }
    return ids.size() > most ? std::nullopt : std::optional(std::move(ids));
  }

  /// Encodes text between the added tokens that are searched before normalisation; stops after more than `most` ids.
  Result<void> encode_raw(std::string_view raw, bool begins_text, size_t most, PieceCache& cache,
                          std::vector<int32_t>& ids) const {
    std::string text(raw);
    if (parts_.normalizer) LOCKSTEP_TRY_VOID(parts_.normalizer->apply(text));
    for (const Segment& segment : parts_.added.cut_normalized(text)) {
      if (ids.size() > most) return ok();
      if (segment.token != nullptr) {
        ids.push_back(segment.token->id);
        continue;
      }
      std::vector<Piece> pieces;
      pieces.push_back({std::string(segment.text), begins_text && segment.text.data() == text.data()});
      if (parts_.pre_tokenizer) LOCKSTEP_TRY_VOID(parts_.pre_tokenizer->split(pieces));
      for (const Piece& piece : pieces) {
        if (ids.size() > most) return ok();
        LOCKSTEP_TRY_VOID(cache.encode(piece.text, ids));
      }
    }
    return ok();
  }

  Parts parts_;
};

/// The last of `ids` on which the text behind them depends: a run of bytes is decoded as a whole, and the beginning of
/// a text differs from its inside.
std::span<const int32_t> context_of(std::span<const int32_t> ids, const Tokenizer& tokenizer) {
  constexpr int kTokens = 16;  // a character has four bytes; stages that look at more than one token see these
  size_t begin = ids.size();
  for (int tokens = 0; begin > 0 && tokens < kTokens; --begin) {
    const int32_t id = ids[begin - 1];
    const auto token = tokenizer.token_of(id);
    if (!token || tokenizer.is_special(id)) break;
    if (!byte_of_fallback(*token)) ++tokens;
  }
  return ids.subspan(begin);
}

/// `tables` are those of the model if they were read separately from the document.
Result<Parts> parse_parts(const JsonField& root, const MergeTables* tables, const TokenizerSettings& settings) {
  Parts parts;
  LOCKSTEP_TRY(const JsonField model, root.at("model"));
  LOCKSTEP_TRY(parts.model, parse_model(model, tables));
  if (const auto field = root.find("pre_tokenizer")) {
    LOCKSTEP_TRY(parts.pre_tokenizer, parse_pre_tokenizer(*field));
  }
  if (const auto field = root.find("normalizer")) {
    const auto start_marks = parts.pre_tokenizer ? parts.pre_tokenizer->start_marks() : std::vector<std::string>();
    LOCKSTEP_TRY(parts.normalizer, parse_normalizer(*field, start_marks));
  }
  std::vector<AddedToken> added;
  const auto list = root.find("added_tokens");
  if (list) {
    LOCKSTEP_TRY(added, parse_added_tokens(*list));
  }
  LOCKSTEP_TRY(parts.added, AddedTokens::make(settings.added_tokens(added), settings.splits_special_tokens,
                                              parts.model->vocabulary(), parts.normalizer.get(), list.value_or(root)));
  if (const auto field = root.find("post_processor")) {
    LOCKSTEP_TRY(parts.post_processor, parse_post_processor(*field));
  }
  parts.post_processor =
      class_post_processor(settings, std::move(parts.post_processor), parts.id_of(settings.text_of("bos_token")));
  if (const auto field = root.find("decoder")) {
    LOCKSTEP_TRY(parts.decoder, parse_decoder(*field));
  } else {
    parts.decoder = plain_decoder();
  }
  return parts;
}

Result<std::unique_ptr<Tokenizer>> parse_with(const TokenizerSettings& settings, std::string_view json,
                                              std::string_view origin) {
  const auto make = [&](nlohmann::json& document, const MergeTables* tables) -> Result<std::unique_ptr<Tokenizer>> {
    LOCKSTEP_TRY_VOID(put_class_stages(settings, document, origin));
    LOCKSTEP_TRY(Parts parts, parse_parts(JsonField(document, std::string(origin)), tables, settings));
    return std::make_unique<FileTokenizer>(std::move(parts));
  };
  if (auto apart = read_with_tables(json)) {
    auto made = make(apart->document, apart->tables.empty() ? nullptr : &apart->tables);
    if (made.has_value()) return made;
  }  // otherwise a plain parse reports the error and its place
  auto document = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    return JsonField(document, std::string(origin)).invalid("text that is not JSON", "a tokenizer as JSON");
  }
  return make(document, nullptr);
}

}  // namespace

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  LOCKSTEP_TRY(auto ids, encode_within(text, special, std::numeric_limits<size_t>::max()));
  return std::move(ids).value_or(std::vector<int32_t>());  // always there
}

Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view json, std::string_view origin) {
  return parse_with({}, json, origin);
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, SpecialPieces special)
    : tokenizer_(&tokenizer), special_(special), stream_(tokenizer.open_stream(special)) {}

Result<void> StreamDecoder::follow(std::span<const int32_t> ids) {
  const auto alone = tokenizer_->open_stream(special_);
  for (const int32_t id : context_of(ids, *tokenizer_)) {
    LOCKSTEP_TRY_VOID(alone->put(id));
    LOCKSTEP_TRY_VOID(stream_->put(id));
  }
  LOCKSTEP_TRY(before_, alone->finish());
  return ok();
}

Result<std::string> StreamDecoder::put(int32_t id) {
  LOCKSTEP_TRY(std::string text, stream_->put(id));
  return own_part(std::move(text));
}

Result<std::string> StreamDecoder::finish() {
  LOCKSTEP_TRY(std::string text, stream_->finish());
  return own_part(std::move(text));
}

/// A run of bytes that was held back may have become part of a longer one, with another text:
///
///   text before │ the stream's next text                 │ own part
///   "\n"        │ "\n…"                                  │ what follows it
///   "\n"        │ U+FFFD for each byte of the longer run │ what follows one for each byte of the text before
///   U+FFFD …    │ a character, which these bytes begin   │ all of it
std::string StreamDecoder::own_part(std::string text) {
  if (before_.empty() || text.empty()) return text;
  const std::string before = std::exchange(before_, {});
  if (text.starts_with(before)) return text.substr(before.size());
  std::string marks;
  for (size_t i = 0; i < before.size(); ++i) marks += "\uFFFD";
  if (text.starts_with(marks)) return text.substr(marks.size());
  return text;
}

std::span<const std::string_view> text_files() { return kTextFiles; }

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& directory) {
  const auto path = directory / kTokenizerFile;
  LOCKSTEP_TRY(const auto content, gguf::read_model_text(path));
  if (!content) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[runtime/text] cannot read {}: found no readable file, expected the "
                             "tokenizer of the model; check the directory",
                             path.string())};
  }
  TokenizerSettings settings;
  if (!gguf::is_inside(path)) {
    LOCKSTEP_TRY(settings, read_tokenizer_settings(directory));
  }
  return parse_with(settings, *content, path.string());
}

}  // namespace lockstep::text
