#include "runtime/text/decoder.h"

#include <functional>

#include "runtime/text/byte_level.h"
#include "runtime/text/pattern_field.h"
#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

constexpr int kMaxNesting = 16;
constexpr int64_t kMaxStrip = 1 << 20;

/// A step with a factory function for its stages.
class StepFrom final : public DecodeStep {
 public:
  using Open = std::function<std::unique_ptr<DecodeStage>()>;
  explicit StepFrom(Open open) : open_(std::move(open)) {}
  std::unique_ptr<DecodeStage> open() const override { return open_(); }

 private:
  Open open_;
};

/// A stage on complete pieces.
class PieceStage : public DecodeStage {
 public:
  Result<void> put(Fragment fragment, std::vector<Fragment>& out) final {
    piece_ += fragment.text;
    if (!fragment.ends_piece) return ok();
    return put_piece(std::exchange(piece_, {}), out);
  }
  Result<void> finish(std::vector<Fragment>&) override { return ok(); }

 protected:
  virtual Result<void> put_piece(std::string piece, std::vector<Fragment>& out) = 0;

 private:
  std::string piece_;
};

class ReplaceStage final : public PieceStage {
 public:
  ReplaceStage(std::shared_ptr<const Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

 protected:
  Result<void> put_piece(std::string piece, std::vector<Fragment>& out) override {
    LOCKSTEP_TRY(auto replaced, replace_all(*pattern_, piece, content_));
    out.push_back({std::move(replaced)});
    return ok();
  }

 private:
  std::shared_ptr<const Pattern> pattern_;
  std::string content_;
};

/// Replaces the mark by a space, or removes it in the first piece, where encoding added it.
class MetaspaceStage final : public PieceStage {
 public:
  MetaspaceStage(std::string mark, bool encoding_adds_one) : mark_(std::move(mark)), drop_(encoding_adds_one) {}

 protected:
  Result<void> put_piece(std::string piece, std::vector<Fragment>& out) override {
    LOCKSTEP_TRY(auto text, replace_all(*Pattern::literal(mark_), piece, drop_ ? "" : " "));
    drop_ = false;
    out.push_back({std::move(text)});
    return ok();
  }

 private:
  std::string mark_;
  bool drop_;
};

/// Converts a run of <0x..> tokens to characters, or to one U+FFFD per byte if any byte does not fit. The run is
/// therefore held back until it ends.
class ByteFallbackStage final : public PieceStage {
 public:
  Result<void> finish(std::vector<Fragment>& out) override {
    flush(out);
    return ok();
  }

 protected:
  Result<void> put_piece(std::string piece, std::vector<Fragment>& out) override {
    if (const auto byte = byte_of_fallback(piece)) {
      run_ += static_cast<char>(*byte);
      return ok();
    }
    flush(out);
    out.push_back({std::move(piece)});
    return ok();
  }

 private:
  void flush(std::vector<Fragment>& out) {
    if (run_.empty()) return;
    if (find_invalid_utf8(run_) == std::string_view::npos) {
      out.push_back({run_});
    } else {
      for (size_t i = 0; i < run_.size(); ++i) out.push_back({"\uFFFD"});
    }
    run_.clear();
  }

  std::string run_;
};

/// Joins all pieces into one.
class FuseStage final : public DecodeStage {
 public:
  Result<void> put(Fragment fragment, std::vector<Fragment>& out) override {
    out.push_back({std::move(fragment.text), false});
    return ok();
  }
  Result<void> finish(std::vector<Fragment>& out) override {
    out.push_back({"", true});
    return ok();
  }
};

/// Removes up to `start` and `stop` of a character from the ends of each piece. Works on fragments: holds back only
/// characters that might be removed from the end.
class StripStage final : public DecodeStage {
 public:
  StripStage(std::string content, size_t start, size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop), left_(start) {}

  Result<void> put(Fragment fragment, std::vector<Fragment>& out) override {
    std::string_view text = fragment.text;
    while (left_ > 0 && text.starts_with(content_)) {
      text.remove_prefix(content_.size());
      --left_;
    }
    if (!text.empty()) left_ = 0;
    held_ += text;
    size_t keep = held_.size();
    for (size_t i = 0; i < stop_ && std::string_view(held_).substr(0, keep).ends_with(content_); ++i) {
      keep -= content_.size();
    }
    std::string ready = held_.substr(0, keep);
    if (fragment.ends_piece) {
      held_.clear();
      left_ = start_;
    } else {
      held_.erase(0, keep);
    }
    out.push_back({std::move(ready), fragment.ends_piece});
    return ok();
  }
  Result<void> finish(std::vector<Fragment>&) override { return ok(); }

 private:
  std::string content_;  // one character
  size_t start_;
  size_t stop_;
  size_t left_;       // how many more may be removed from the beginning of this piece
  std::string held_;  // possible end of the piece
};

class ByteLevelStage final : public DecodeStage {
 public:
  Result<void> put(Fragment fragment, std::vector<Fragment>& out) override {
    piece_ += fragment.text;
    if (!fragment.ends_piece) return ok();
    std::string text;
    assembler_.put(bytes_of(std::exchange(piece_, {})), text);
    out.push_back({std::move(text), false});
    return ok();
  }
  Result<void> finish(std::vector<Fragment>& out) override {
    std::string rest;
    assembler_.finish(rest);
    out.push_back({std::move(rest), true});
    return ok();
  }

 private:
  /// A piece with a character outside the alphabet (for example an added token) represents itself.
  static std::string bytes_of(std::string piece) {
    std::string bytes;
    for (size_t at = 0; at < piece.size();) {
      const auto byte = byte_of_level(next_char(piece, at));
      if (!byte) return piece;
      bytes += static_cast<char>(*byte);
    }
    return bytes;
  }

  std::string piece_;
  Utf8Assembler assembler_;
};

class JoinStage final : public PieceStage {
 protected:
  Result<void> put_piece(std::string piece, std::vector<Fragment>& out) override {
    out.push_back({std::exchange(is_first_, false) ? std::move(piece) : " " + piece});
    return ok();
  }

 private:
  bool is_first_ = true;
};

template <typename Stage, typename... Args>
std::unique_ptr<DecodeStep> step(Args... args) {
  return std::make_unique<StepFrom>([=] { return std::make_unique<Stage>(args...); });
}

Result<void> parse_into(Decoder& decoder, const JsonField& field, int depth);

Result<void> parse_sequence(Decoder& decoder, const JsonField& field, int depth) {
  if (depth >= kMaxNesting) return field.invalid("Sequence inside Sequence", "less nesting");
  LOCKSTEP_TRY(const JsonField list, field.at("decoders"));
  LOCKSTEP_TRY(const auto elements, list.elements());
  for (const JsonField& element : elements) LOCKSTEP_TRY_VOID(parse_into(decoder, element, depth + 1));
  return ok();
}

Result<std::unique_ptr<DecodeStep>> parse_replace(const JsonField& field) {
  LOCKSTEP_TRY(const JsonField pattern_field, field.at("pattern"));
  LOCKSTEP_TRY(auto pattern, parse_pattern(pattern_field));
  LOCKSTEP_TRY(auto content, field.string_or("content", ""));
  return step<ReplaceStage>(std::move(pattern), std::move(content));
}

Result<std::unique_ptr<DecodeStep>> parse_strip(const JsonField& field) {
  LOCKSTEP_TRY(const JsonField content_field, field.at("content"));
  LOCKSTEP_TRY_VOID(parse_char(content_field));
  LOCKSTEP_TRY(auto content, content_field.string());
  LOCKSTEP_TRY(const JsonField start_field, field.at("start"));
  LOCKSTEP_TRY(const int64_t start, start_field.integer(0, kMaxStrip));
  LOCKSTEP_TRY(const JsonField stop_field, field.at("stop"));
  LOCKSTEP_TRY(const int64_t stop, stop_field.integer(0, kMaxStrip));
  return step<StripStage>(std::move(content), static_cast<size_t>(start), static_cast<size_t>(stop));
}

Result<std::unique_ptr<DecodeStep>> parse_metaspace(const JsonField& field) {
  LOCKSTEP_TRY(const JsonField mark_field, field.at("replacement"));
  LOCKSTEP_TRY_VOID(parse_char(mark_field));
  LOCKSTEP_TRY(auto mark, mark_field.string());
  LOCKSTEP_TRY(const bool adds_one, field.boolean_or("add_prefix_space", true));  // the key in older files
  LOCKSTEP_TRY(const std::string scheme, field.string_or("prepend_scheme", adds_one ? "always" : "never"));
  return step<MetaspaceStage>(std::move(mark), scheme != "never");
}

Result<std::unique_ptr<DecodeStep>> parse_step(const JsonField& field, const std::string& type) {
  if (type == "ByteLevel") return step<ByteLevelStage>();
  if (type == "ByteFallback") return step<ByteFallbackStage>();
  if (type == "Fuse") return step<FuseStage>();
  if (type == "Replace") return parse_replace(field);
  if (type == "Strip") return parse_strip(field);
  if (type == "Metaspace") return parse_metaspace(field);
  return field.unsupported(fmt::format("the decoder \"{}\"", type),
                           "ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip");
}

Result<void> parse_into(Decoder& decoder, const JsonField& field, int depth) {
  LOCKSTEP_TRY(const JsonField type_field, field.at("type"));
  LOCKSTEP_TRY(const std::string type, type_field.string());
  if (type == "Sequence") return parse_sequence(decoder, field, depth);
  LOCKSTEP_TRY(auto next, parse_step(field, type));
  decoder.push_back(std::move(next));
  return ok();
}

}  // namespace

Result<Decoder> parse_decoder(const JsonField& field) {
  Decoder decoder;
  LOCKSTEP_TRY_VOID(parse_into(decoder, field, 0));
  return decoder;
}

Decoder plain_decoder() {
  Decoder decoder;
  decoder.push_back(step<JoinStage>());
  return decoder;
}

}  // namespace lockstep::text
