#include "launcher/serve/output/call_section.h"

#include <string_view>
#include <utility>

namespace lockstep::serve {
namespace {

constexpr size_t kLongestPrelude = 256;
constexpr std::string_view kFunction = "<function=";

bool is_blank(std::string_view text) { return text.find_first_not_of(" \n\r\t") == std::string_view::npos; }

}  // namespace

CallSection::CallSection(const CallSyntax& syntax, const ParameterTypes& types, PieceCollector& out,
                         std::string opening)
    : syntax_(syntax),
      out_(out),
      unread_(std::move(opening)),
      opening_size_(unread_.size()),
      escaped_(out),
      xml_(out, types) {
  if (unread_ == kFunction) prelude_ = unread_;
}

CallSection::State CallSection::put(char byte) {
  switch (phase_) {
    case Phase::kPrelude: return put_prelude(byte);
    case Phase::kObject: return put_object(byte);
    case Phase::kArguments: return put_arguments(byte);
    default: return put_between(byte);
  }
}

CallSection::State CallSection::put_prelude(char byte) {
  if (syntax_.body == CallBody::kXml) return put_xml_prelude(byte);
  const bool objects = syntax_.body != CallBody::kNamedEscaped && is_blank(prelude_);
  if (objects && byte == '{') return begin_object(byte);
  if (objects && byte == '[' && !in_list_) {
    in_list_ = true;
    unread_ += byte;
    return State::kMore;
  }
  const bool named = syntax_.body != CallBody::kObject && !in_list_;
  if (named && byte == '{') {
    return begin_arguments(byte);
  }
  if ((!named && !is_json_space(byte)) || prelude_.size() == kLongestPrelude) return fail(byte);
  prelude_ += byte;
  unread_ += byte;
  return State::kMore;
}

/// "<function=NAME>" behind blanks.
CallSection::State CallSection::put_xml_prelude(char byte) {
  if (byte == '>' && prelude_.size() > kFunction.size()) return begin_arguments(byte);
  if (prelude_.empty() && is_json_space(byte)) {
    unread_ += byte;
    return State::kMore;
  }
  prelude_ += byte;
  const bool fits = kFunction.starts_with(prelude_) || std::string_view(prelude_).starts_with(kFunction);
  if (!fits || is_json_space(byte) || prelude_.size() == kLongestPrelude) return fail(byte);
  unread_ += byte;
  return State::kMore;
}

CallSection::State CallSection::begin_arguments(char byte) {
  const auto name = name_before_arguments(prelude_);
  if (!name) return fail(byte);
  out_.begin_call(*name);
  note_call();
  call_open_ = true;
  phase_ = Phase::kArguments;
  if (syntax_.body != CallBody::kXml) return put_arguments(byte);
  xml_.begin(*name);
  return State::kMore;
}

CallSection::State CallSection::begin_object(char byte) {
  const bool bare = opening_size_ == 0 && calls_ == 0;
  object_.emplace(out_, bare ? CallObject::Place::kBare : CallObject::Place::kTagged);
  phase_ = Phase::kObject;
  return put_object(byte);
}

CallSection::State CallSection::put_object(char byte) {
  const bool had_begun = object_->has_begun();
  const JsonScanner::State state = object_->put(byte);
  if (!had_begun && object_->has_begun()) note_call();
  if (state == JsonScanner::State::kInvalid) {
    object_->abandon();
    return fail(byte);
  }
  if (!object_->has_begun()) unread_ += byte;
  if (state == JsonScanner::State::kMore) return State::kMore;
  phase_ = Phase::kBetween;
  return in_list_ ? State::kMore : State::kComplete;
}

CallSection::State CallSection::put_arguments(char byte) {
  const bool in_string = arguments_.in_string();
  const bool is_json = syntax_.body == CallBody::kNamed;
  const JsonScanner::State state = is_json                          ? arguments_.put(byte)
                                   : syntax_.body == CallBody::kXml ? xml_.put(byte)
                                                                    : escaped_.put(byte);
  const bool invalid = state == JsonScanner::State::kInvalid;
  if (is_json && !invalid) out_.arguments(json_escaped(byte, in_string));
  if (state == JsonScanner::State::kMore) return State::kMore;
  out_.end_call();
  call_open_ = false;
  return invalid ? fail(byte) : State::kComplete;
}

CallSection::State CallSection::put_between(char byte) {
  if (byte == ']') return State::kComplete;
  if (byte == '{') return begin_object(byte);
  unread_ += byte;
  return byte == ',' || is_json_space(byte) ? State::kMore : State::kFailed;
}

CallSection::State CallSection::fail(char byte) {
  unread_ += byte;
  return State::kFailed;
}

/// A call has begun: the text so far is read.
void CallSection::note_call() {
  ++calls_;
  unread_.clear();
  opening_size_ = 0;
}

CallSection::State CallSection::finish() {
  if (object_) object_->abandon();
  if (call_open_) out_.end_call();
  call_open_ = false;
  const bool unfinished = phase_ == Phase::kPrelude || (phase_ == Phase::kObject && !object_->has_begun());
  return unfinished ? State::kFailed : State::kComplete;
}

}  // namespace lockstep::serve
