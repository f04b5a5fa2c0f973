#include "runtime/text/normalizer.h"

#include <algorithm>
#include <vector>

#include "runtime/text/byte_level.h"
#include "runtime/text/pattern_field.h"
#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

constexpr std::string_view kKnown =
    "ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence, Strip, StripAccents";
constexpr int kMaxNesting = 16;

class ToNormalForm final : public Normalizer {
 public:
  explicit ToNormalForm(NormalForm form) : form_(form) {}
  Result<void> apply(std::string& text) const override {
    text = to_normal_form(text, form_);
    return ok();
  }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  Result<void> apply(std::string& text) const override {
    text = to_lower(text);
    return ok();
  }
};

class ToByteLevel final : public Normalizer {
 public:
  Result<void> apply(std::string& text) const override {
    text = bytes_to_level(text);
    return ok();
  }
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  Result<void> apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
    return ok();
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  /// `of_one_char`: the pattern matches exactly one character.
  Replace(std::shared_ptr<const Pattern> pattern, bool of_one_char, std::string content)
      : pattern_(std::move(pattern)), of_one_char_(of_one_char), content_(std::move(content)) {}
  Result<void> apply(std::string& text) const override {
    LOCKSTEP_TRY(text, replace_all(*pattern_, text, content_));
    return ok();
  }
  /// No mark is added to text that begins with a space or the mark, and a character in place of one character begins
  /// where that did.
  bool may_remove_start(std::string_view mark) const override {
    return content_.empty() || (!content_.starts_with(' ') && !content_.starts_with(mark) && !of_one_char_);
  }

 private:
  std::shared_ptr<const Pattern> pattern_;
  bool of_one_char_;
  std::string content_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  Result<void> apply(std::string& text) const override {
    size_t end = text.size();
    while (right_ && end > 0) {
      const size_t before = previous_char(text, end);
      size_t at = before;
      if (!is_white_space(next_char(text, at))) break;
      end = before;
    }
    size_t begin = 0;
    while (left_ && begin < end) {
      size_t at = begin;
      if (!is_white_space(next_char(text, at))) break;
      begin = at;
    }
    text = text.substr(begin, end - begin);
    return ok();
  }
  bool may_remove_start(std::string_view) const override { return left_; }

 private:
  bool left_;
  bool right_;
};

class StripAccents final : public Normalizer {
 public:
  Result<void> apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const char32_t c = next_char(text, at);
      if (!is_accent(c)) append_utf8(c, out);
    }
    text = std::move(out);
    return ok();
  }
  bool may_remove_start(std::string_view) const override { return true; }
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  Result<void> apply(std::string& text) const override {
    for (const auto& step : steps_) LOCKSTEP_TRY_VOID(step->apply(text));
    return ok();
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

using StartMarks = std::vector<std::string>;

Result<std::unique_ptr<Normalizer>> parse(const JsonField& field, const StartMarks& marks, int depth);

Result<std::unique_ptr<Normalizer>> parse_sequence(const JsonField& field, const StartMarks& marks, int depth) {
  if (depth >= kMaxNesting) return field.invalid("Sequence inside Sequence", "less nesting");
  LOCKSTEP_TRY(const JsonField list, field.at("normalizers"));
  LOCKSTEP_TRY(const auto elements, list.elements());
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const JsonField& element : elements) {
    LOCKSTEP_TRY(auto step, parse(element, marks, depth + 1));
    steps.push_back(std::move(step));
  }
  return std::make_unique<Sequence>(std::move(steps));
}

Result<std::unique_ptr<Normalizer>> parse_replace(const JsonField& field) {
  LOCKSTEP_TRY(const JsonField pattern_field, field.at("pattern"));
  LOCKSTEP_TRY(auto pattern, parse_pattern(pattern_field));
  LOCKSTEP_TRY(const std::string literal, pattern_field.string_or("String", ""));
  LOCKSTEP_TRY(auto content, field.string_or("content", ""));
  return std::make_unique<Replace>(std::move(pattern), count_chars(literal) == 1, std::move(content));
}

Result<std::unique_ptr<Normalizer>> parse_strip(const JsonField& field) {
  LOCKSTEP_TRY(const bool left, field.boolean_or("strip_left", true));
  LOCKSTEP_TRY(const bool right, field.boolean_or("strip_right", true));
  return std::make_unique<Strip>(left, right);
}

Result<std::unique_ptr<Normalizer>> parse_prepend(const JsonField& field) {
  LOCKSTEP_TRY(const JsonField prefix_field, field.at("prepend"));
  LOCKSTEP_TRY(auto prefix, prefix_field.string());
  return std::make_unique<Prepend>(std::move(prefix));
}

Result<std::unique_ptr<Normalizer>> parse_of_type(std::string_view type, const JsonField& field,
                                                  const StartMarks& marks, int depth) {
  if (type == "Sequence") return parse_sequence(field, marks, depth);
  if (type == "NFC") return std::make_unique<ToNormalForm>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<ToNormalForm>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<ToNormalForm>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<ToNormalForm>(NormalForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "ByteLevel") return std::make_unique<ToByteLevel>();
  if (type == "Replace") return parse_replace(field);
  if (type == "Prepend") return parse_prepend(field);
  if (type == "Strip") return parse_strip(field);
  return field.unsupported(fmt::format("the normalizer \"{}\"", type), kKnown);
}

Result<std::unique_ptr<Normalizer>> parse(const JsonField& field, const StartMarks& marks, int depth) {
  LOCKSTEP_TRY(const JsonField type_field, field.at("type"));
  LOCKSTEP_TRY(const std::string type, type_field.string());
  LOCKSTEP_TRY(auto step, parse_of_type(type, field, marks, depth));
  if (std::ranges::none_of(marks, [&](const std::string& mark) { return step->may_remove_start(mark); })) return step;
  return field.unsupported(
      fmt::format("\"{}\", which may remove the beginning of a text, with a Metaspace that marks only it", type),
      "a Metaspace with the prepend_scheme \"always\" or \"never\", a normalizer that keeps the beginning");
}

}  // namespace

Result<std::unique_ptr<Normalizer>> parse_normalizer(const JsonField& field,
                                                     const std::vector<std::string>& start_marks) {
  return parse(field, start_marks, 0);
}

}  // namespace lockstep::text
