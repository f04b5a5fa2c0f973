#include "launcher/serve/output/text_reader.h"

#include <algorithm>
#include <utility>

#include "launcher/serve/output/formats.h"

namespace lockstep::serve {
namespace {

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

}  // namespace

TextReader::TextReader(const OutputFormat& format, const CallSyntax* syntax, ReadParts parts)
    : syntax_(syntax), types_(parts.schemas), reads_calls_(parts.tools && syntax != nullptr) {
  if (!parts.reasoning || format.reasoning.empty()) return;
  reasoning_begin_ = format.reasoning;
  reasoning_end_ = closing_tag(format.reasoning);
  in_reasoning_ = format.begins_in_reasoning;
}

std::vector<OutputPiece> TextReader::put(std::string_view text) {
  for (const char byte : text) put_byte(byte);
  return out_.take();
}

std::vector<OutputPiece> TextReader::finish() {
  while (section_) {
    if (section_->finish() == CallSection::State::kFailed) {
      read_again();
    } else {
      section_.reset();
      begin_text(Before::kCall);
    }
  }
  if (is_within_closing()) held_.clear();
  for (const char byte : std::exchange(held_, {})) release(byte);
  if (section_) return finish();  // a bare call that has just begun
  if (in_reasoning_) out_.reasoning(blanks_);
  if (!in_reasoning_ && before_ == Before::kStart) out_.content(blanks_);
  return out_.take();
}

/// Whether the answer was cut inside the tag that closes a call.
bool TextReader::is_within_closing() const {
  return is_behind_call() &&
         std::ranges::any_of(syntax_->closings, [&](const std::string& tag) { return tag.starts_with(held_); });
}

void TextReader::put_byte(char byte) { section_ ? put_call(byte) : put_text(byte); }

void TextReader::put_call(char byte) {
  const CallSection::State state = section_->put(byte);
  if (state == CallSection::State::kMore) return;
  if (state == CallSection::State::kFailed) return read_again();
  section_.reset();
  begin_text(Before::kCall);
}

/// The section's text is no call. Its opening is content, or its bracket; the rest may hold another call.
void TextReader::read_again() {
  const std::string text = section_->unread();
  const size_t opening = section_->opening_size();
  const bool begun = section_->has_begun();
  section_.reset();
  size_t next = 0;
  if (begun) {
    begin_text(Before::kCall);
  } else {
    next = std::max<size_t>(opening, 1);
    const std::string_view first = std::string_view(text).substr(0, next);
    const auto& dropped = syntax_->dropped;
    if (std::find(dropped.begin(), dropped.end(), first) == dropped.end()) content_begins(first);
  }
  for (; next < text.size(); ++next) put_byte(text[next]);
}

void TextReader::content_begins(std::string_view text) {
  if (before_ != Before::kReasoning || text_began_) out_.content(blanks_);
  blanks_.clear();
  text_began_ = true;
  out_.content(text);
}

void TextReader::begin_text(Before before) {
  before_ = before;
  text_began_ = false;
  blanks_.clear();
}

void TextReader::put_text(char byte) {
  held_ += byte;
  while (!held_.empty()) {
    const Action action = match();
    if (action == Action::kWait) return;
    if (action != Action::kNone) return perform(action);
    const char first = held_.front();
    held_.erase(0, 1);
    release(first);
    if (section_) {  // a bare call has begun: it takes the rest
      for (const char next : std::exchange(held_, {})) put_byte(next);
    }
  }
}

/// What the withheld text is, or may become.
TextReader::Action TextReader::match() const {
  Action found = Action::kNone;
  const auto look_for = [&](std::string_view tag, Action action) {
    if (tag == held_) found = action;
    if (found == Action::kNone && tag.size() > held_.size() && tag.starts_with(held_)) found = Action::kWait;
  };
  if (in_reasoning_) look_for(reasoning_end_, Action::kReasoningEnds);
  if (!in_reasoning_ && !text_began_ && before_ != Before::kReasoning && !reasoning_begin_.empty()) {
    look_for(reasoning_begin_, Action::kReasoningBegins);
  }
  if (syntax_ == nullptr) return found;
  for (const std::string& tag : syntax_->dropped) look_for(tag, Action::kDrop);
  if (in_reasoning_ || !reads_calls_) return found;
  for (const std::string& tag : syntax_->openings) look_for(tag, Action::kCallBegins);
  if (is_behind_call()) {
    for (const std::string& tag : syntax_->closings) look_for(tag, Action::kDrop);
  }
  return found;
}

void TextReader::perform(Action action) {
  std::string tag = std::exchange(held_, {});
  if (action == Action::kCallBegins) {
    section_.emplace(*syntax_, types_, out_, std::move(tag));
  } else if (action == Action::kReasoningBegins) {
    in_reasoning_ = true;
    begin_text(Before::kReasoning);
  } else if (action == Action::kReasoningEnds) {
    in_reasoning_ = false;
    begin_text(Before::kReasoning);
  }
}

/// A byte that belongs to no tag.
void TextReader::release(char byte) {
  if (!in_reasoning_) return release_content(byte);
  if (is_space(byte)) {
    if (text_began_) blanks_ += byte;
    return;
  }
  text_began_ = true;
  out_.reasoning(blanks_);
  out_.reasoning(std::string_view(&byte, 1));
  blanks_.clear();
}

void TextReader::release_content(char byte) {
  const char text[] = {byte, 0};
  if (text_began_) return out_.content(text);
  const bool separator = before_ == Before::kCall && syntax_->bare && (byte == ';' || byte == ',');
  if (is_space(byte) || separator) {
    blanks_ += byte;
    return;
  }
  if (begins_bare_call(byte)) {
    section_.emplace(*syntax_, types_, out_, "");
    return put_call(byte);
  }
  content_begins(text);
}

/// At the beginning of the text, or behind another call.
bool TextReader::begins_bare_call(char byte) const {
  if (byte != '{' || !reads_calls_) return false;
  return syntax_->bare || (before_ == Before::kCall && syntax_->body == CallBody::kObject);
}

}  // namespace lockstep::serve
