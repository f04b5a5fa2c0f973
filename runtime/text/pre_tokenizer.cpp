#include "runtime/text/pre_tokenizer.h"

#include <algorithm>
#include <iterator>

#include "runtime/text/byte_level.h"
#include "runtime/text/pattern_field.h"
#include "runtime/text/split_behavior.h"
#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

constexpr std::string_view kKnown =
    "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, Metaspace, Punctuation, Sequence, Split, Whitespace, "
    "WhitespaceSplit";
constexpr int kMaxNesting = 16;

/// Replaces each piece by its `spans_of(piece)`.
template <typename SpansOf>
Result<void> cut(std::vector<Piece>& pieces, SpansOf spans_of) {
  std::vector<Piece> out;
  out.reserve(pieces.size());
  for (Piece& piece : pieces) {
    LOCKSTEP_TRY(const std::vector<Span> spans, spans_of(piece.text));
    if (spans.size() == 1 && spans[0] == Span{0, piece.text.size()}) {
      out.push_back(std::move(piece));
      continue;
    }
    for (const Span& span : spans) {
      out.push_back({piece.text.substr(span.begin, span.end - span.begin), piece.begins_text && span.begin == 0});
    }
  }
  pieces = std::move(out);
  return ok();
}

class SplitByPattern final : public PreTokenizer {
 public:
  SplitByPattern(std::shared_ptr<const Pattern> pattern, SplitBehavior behavior, Delimiters delimiters)
      : pattern_(std::move(pattern)), behavior_(behavior), delimiters_(delimiters) {}

  Result<void> split(std::vector<Piece>& pieces) const override {
    Pattern::Matcher matcher(*pattern_);
    return cut(pieces, [&](const std::string& text) -> Result<std::vector<Span>> {
      LOCKSTEP_TRY(const auto matches, matcher.find_all(text));
      return split_at(matches, text.size(), behavior_, delimiters_);
    });
  }

 private:
  std::shared_ptr<const Pattern> pattern_;
  SplitBehavior behavior_;
  Delimiters delimiters_;
};

/// Cuts at the characters of a class; each is a separate delimiter.
class SplitByChar final : public PreTokenizer {
 public:
  using Class = bool (*)(char32_t);
  SplitByChar(Class is_delimiter, SplitBehavior behavior) : is_delimiter_(is_delimiter), behavior_(behavior) {}

  Result<void> split(std::vector<Piece>& pieces) const override {
    return cut(pieces, [&](const std::string& text) -> Result<std::vector<Span>> {
      std::vector<Span> matches;
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        if (is_delimiter_(next_char(text, at))) matches.push_back({begin, at});
      }
      return split_at(matches, text.size(), behavior_, Delimiters::kMatches);
    });
  }

 private:
  Class is_delimiter_;
  SplitBehavior behavior_;
};

/// Keeps runs of word characters and runs of other visible characters; drops white space.
class Whitespace final : public PreTokenizer {
 public:
  Result<void> split(std::vector<Piece>& pieces) const override {
    return cut(pieces, [](const std::string& text) -> Result<std::vector<Span>> {
      enum class Kind { kSpace, kWord, kOther };
      std::vector<Span> spans;
      Kind before = Kind::kSpace;
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const char32_t c = next_char(text, at);
        const Kind kind = is_word(c) ? Kind::kWord : is_white_space(c) ? Kind::kSpace : Kind::kOther;
        if (kind != Kind::kSpace && kind == before) {
          spans.back().end = at;
        } else if (kind != Kind::kSpace) {
          spans.push_back({begin, at});
        }
        before = kind;
      }
      return spans;
    });
  }
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, std::unique_ptr<PreTokenizer> words)
      : add_prefix_space_(add_prefix_space), words_(std::move(words)) {}

  Result<void> split(std::vector<Piece>& pieces) const override {
    for (Piece& piece : pieces) {
      if (add_prefix_space_ && !piece.text.starts_with(' ')) piece.text.insert(0, " ");
    }
    if (words_) LOCKSTEP_TRY_VOID(words_->split(pieces));
    for (Piece& piece : pieces) piece.text = bytes_to_level(piece.text);
    return ok();
  }

 private:
  bool add_prefix_space_;
  std::unique_ptr<PreTokenizer> words_;  // null: pieces stay whole
};

/// Replaces spaces by a visible character, usually ▁, at the start of each word.
class Metaspace final : public PreTokenizer {
 public:
  enum class Prefix { kAlways, kFirst, kNever };
  Metaspace(std::string mark, Prefix prefix, bool split)
      : mark_(std::move(mark)),
        prefix_(prefix),
        split_(split),
        words_(Pattern::literal(mark_), SplitBehavior::kMergedWithNext, Delimiters::kMatches) {}

  Result<void> split(std::vector<Piece>& pieces) const override {
    for (Piece& piece : pieces) {
      std::string marked;
      marked.reserve(piece.text.size() + mark_.size());
      for (const char c : piece.text) c == ' ' ? marked += mark_ : marked += c;
      const bool wanted = prefix_ == Prefix::kAlways || (prefix_ == Prefix::kFirst && piece.begins_text);
      if (wanted && !marked.starts_with(mark_)) marked.insert(0, mark_);
      piece.text = std::move(marked);
    }
    return split_ ? words_.split(pieces) : Result<void>(ok());
  }
  std::vector<std::string> start_marks() const override {
    return prefix_ == Prefix::kFirst ? std::vector{mark_} : std::vector<std::string>();
  }

 private:
  std::string mark_;
  Prefix prefix_;
  bool split_;
  SplitByPattern words_;
};

class Sequence final : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> steps) : steps_(std::move(steps)) {}
  Result<void> split(std::vector<Piece>& pieces) const override {
    for (const auto& step : steps_) LOCKSTEP_TRY_VOID(step->split(pieces));
    return ok();
  }
  std::vector<std::string> start_marks() const override {
    std::vector<std::string> all;
    for (const auto& step : steps_) std::ranges::move(step->start_marks(), std::back_inserter(all));
    return all;
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

using Parsed = Result<std::unique_ptr<PreTokenizer>>;

Parsed parse(const JsonField& field, int depth);

Parsed parse_sequence(const JsonField& field, int depth) {
  if (depth >= kMaxNesting) return field.invalid("Sequence inside Sequence", "less nesting");
  LOCKSTEP_TRY(const JsonField list, field.at("pretokenizers"));
  LOCKSTEP_TRY(const auto elements, list.elements());
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (const JsonField& element : elements) {
    LOCKSTEP_TRY(auto step, parse(element, depth + 1));
    steps.push_back(std::move(step));
  }
  return std::make_unique<Sequence>(std::move(steps));
}

Parsed parse_byte_level(const JsonField& field) {
  LOCKSTEP_TRY(const bool add_prefix_space, field.boolean_or("add_prefix_space", true));
  LOCKSTEP_TRY(const bool use_regex, field.boolean_or("use_regex", true));
  std::unique_ptr<PreTokenizer> words;
  if (use_regex) {
    LOCKSTEP_TRY(auto pattern, Pattern::compile(kByteLevelExpression));
    words = std::make_unique<SplitByPattern>(std::move(pattern), SplitBehavior::kIsolated, Delimiters::kMatches);
  }
  return std::make_unique<ByteLevel>(add_prefix_space, std::move(words));
}

Parsed parse_split(const JsonField& field) {
  LOCKSTEP_TRY(const JsonField pattern_field, field.at("pattern"));
  LOCKSTEP_TRY(auto pattern, parse_pattern(pattern_field));
  LOCKSTEP_TRY(const JsonField behavior_field, field.at("behavior"));
  LOCKSTEP_TRY(const auto behavior, parse_split_behavior(behavior_field));
  LOCKSTEP_TRY(const bool invert, field.boolean_or("invert", false));
  return std::make_unique<SplitByPattern>(std::move(pattern), behavior,
                                          invert ? Delimiters::kRest : Delimiters::kMatches);
}

Result<Metaspace::Prefix> parse_prefix(const JsonField& field) {
  if (const auto scheme = field.find("prepend_scheme")) {
    LOCKSTEP_TRY(const std::string name, scheme->string());
    if (name == "always") return Metaspace::Prefix::kAlways;
    if (name == "first") return Metaspace::Prefix::kFirst;
    if (name == "never") return Metaspace::Prefix::kNever;
    return scheme->unsupported(fmt::format("\"{}\"", name), "always, first, never");
  }
  LOCKSTEP_TRY(const bool add, field.boolean_or("add_prefix_space", true));  // the key in older files
  return add ? Metaspace::Prefix::kAlways : Metaspace::Prefix::kNever;
}

Parsed parse_metaspace(const JsonField& field) {
  LOCKSTEP_TRY(const JsonField mark_field, field.at("replacement"));
  LOCKSTEP_TRY(const char32_t mark, parse_char(mark_field));
  LOCKSTEP_TRY(const auto prefix, parse_prefix(field));
  LOCKSTEP_TRY(const bool split, field.boolean_or("split", true));
  std::string mark_text;
  append_utf8(mark, mark_text);
  return std::make_unique<Metaspace>(std::move(mark_text), prefix, split);
}

Parsed parse_punctuation(const JsonField& field) {
  auto behavior = SplitBehavior::kIsolated;
  if (const auto behavior_field = field.find("behavior")) {
    LOCKSTEP_TRY(behavior, parse_split_behavior(*behavior_field));
  }
  return std::make_unique<SplitByChar>(is_punctuation, behavior);
}

Parsed parse_digits(const JsonField& field) {
  LOCKSTEP_TRY(const bool individual, field.boolean_or("individual_digits", false));
  return std::make_unique<SplitByChar>(is_numeric, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

Parsed parse_char_delimiter(const JsonField& field) {
  LOCKSTEP_TRY(const JsonField delimiter_field, field.at("delimiter"));
  LOCKSTEP_TRY(const char32_t delimiter, parse_char(delimiter_field));
  std::string text;
  append_utf8(delimiter, text);
  return std::make_unique<SplitByPattern>(Pattern::literal(text), SplitBehavior::kRemoved, Delimiters::kMatches);
}

std::unique_ptr<PreTokenizer> make_bert() {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  steps.push_back(std::make_unique<SplitByChar>(is_white_space, SplitBehavior::kRemoved));
  steps.push_back(std::make_unique<SplitByChar>(is_punctuation, SplitBehavior::kIsolated));
  return std::make_unique<Sequence>(std::move(steps));
}

Parsed parse(const JsonField& field, int depth) {
  LOCKSTEP_TRY(const JsonField type_field, field.at("type"));
  LOCKSTEP_TRY(const std::string type, type_field.string());
  if (type == "Sequence") return parse_sequence(field, depth);
  if (type == "ByteLevel") return parse_byte_level(field);
  if (type == "Split") return parse_split(field);
  if (type == "Metaspace") return parse_metaspace(field);
  if (type == "Digits") return parse_digits(field);
  if (type == "Punctuation") return parse_punctuation(field);
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "WhitespaceSplit") return std::make_unique<SplitByChar>(is_white_space, SplitBehavior::kRemoved);
  if (type == "CharDelimiterSplit") return parse_char_delimiter(field);
  if (type == "BertPreTokenizer") return make_bert();
  return field.unsupported(fmt::format("the pre-tokenizer \"{}\"", type), kKnown);
}

}  // namespace

Parsed parse_pre_tokenizer(const JsonField& field) { return parse(field, 0); }

}  // namespace lockstep::text
