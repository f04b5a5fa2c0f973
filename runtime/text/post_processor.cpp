#include "runtime/text/post_processor.h"

#include "runtime/text/vocabulary.h"

namespace lockstep::text {
namespace {

constexpr int kMaxNesting = 16;

Result<PostProcessor> parse(const JsonField& field, int depth);

/// {"ids": [1], …} of a template's `special_tokens`.
Result<std::vector<int32_t>> parse_ids(const JsonField& token) {
  LOCKSTEP_TRY(const JsonField list, token.at("ids"));
  LOCKSTEP_TRY(const auto elements, list.elements());
  std::vector<int32_t> ids;
  for (const JsonField& element : elements) {
    LOCKSTEP_TRY(const int64_t id, element.integer(0, kMaxIds - 1));
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

Result<PostProcessor> parse_template(const JsonField& field) {
  LOCKSTEP_TRY(const JsonField single, field.at("single"));
  LOCKSTEP_TRY(const auto parts, single.elements());
  PostProcessor processor;
  int texts = 0;
  for (const JsonField& part : parts) {
    if (part.find("Sequence")) {
      ++texts;
      continue;
    }
    LOCKSTEP_TRY(const JsonField special, part.at("SpecialToken"));
    LOCKSTEP_TRY(const JsonField name_field, special.at("id"));
    LOCKSTEP_TRY(const std::string name, name_field.string());
    LOCKSTEP_TRY(const JsonField tokens, field.at("special_tokens"));
    LOCKSTEP_TRY(const JsonField token, tokens.at(name));
    LOCKSTEP_TRY(const auto ids, parse_ids(token));
    auto& side = texts == 0 ? processor.before : processor.after;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (texts != 1) return single.invalid(fmt::format("{} places for the text", texts), "one");
  processor.wraps = true;
  processor.divides = parts.size() > 1;
  return processor;
}

/// ["<s>", 0]
Result<int32_t> parse_named_id(const JsonField& field) {
  LOCKSTEP_TRY(const auto elements, field.elements());
  if (elements.size() != 2) return field.invalid(fmt::format("{} elements", elements.size()), "[token, id]");
  LOCKSTEP_TRY(const int64_t id, elements[1].integer(0, kMaxIds - 1));
  return static_cast<int32_t>(id);
}

/// BertProcessing and RobertaProcessing: one token on each side.
Result<PostProcessor> parse_pair(const JsonField& field) {
  LOCKSTEP_TRY(const JsonField cls_field, field.at("cls"));
  LOCKSTEP_TRY(const int32_t cls, parse_named_id(cls_field));
  LOCKSTEP_TRY(const JsonField sep_field, field.at("sep"));
  LOCKSTEP_TRY(const int32_t sep, parse_named_id(sep_field));
  return PostProcessor{.before = {cls}, .after = {sep}, .wraps = true};
}

Result<PostProcessor> parse_sequence(const JsonField& field, int depth) {
  if (depth >= kMaxNesting) return field.invalid("Sequence inside Sequence", "less nesting");
  LOCKSTEP_TRY(const JsonField list, field.at("processors"));
  LOCKSTEP_TRY(const auto elements, list.elements());
  PostProcessor all;
  for (const JsonField& element : elements) {  // each wraps the result of the previous ones
    LOCKSTEP_TRY(const PostProcessor step, parse(element, depth + 1));
    if (step.wraps && all.divides) {
      return element.unsupported("a step behind a template that adds tokens", "ByteLevel in this place");
    }
    all.before.insert(all.before.begin(), step.before.begin(), step.before.end());
    all.after.insert(all.after.end(), step.after.begin(), step.after.end());
    all.wraps = all.wraps || step.wraps;
    all.divides = all.divides || step.divides;
  }
  return all;
}

Result<PostProcessor> parse(const JsonField& field, int depth) {
  LOCKSTEP_TRY(const JsonField type_field, field.at("type"));
  LOCKSTEP_TRY(const std::string type, type_field.string());
  if (type == "Sequence") return parse_sequence(field, depth);
  if (type == "TemplateProcessing") return parse_template(field);
  if (type == "BertProcessing" || type == "RobertaProcessing") return parse_pair(field);
  if (type == "ByteLevel") return PostProcessor{};  // changes only offsets, which are not computed here
  return field.unsupported(fmt::format("the post-processor \"{}\"", type),
                           "BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing");
}

}  // namespace

Result<PostProcessor> parse_post_processor(const JsonField& field) { return parse(field, 0); }

}  // namespace lockstep::text
