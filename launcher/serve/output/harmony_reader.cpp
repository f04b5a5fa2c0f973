#include "launcher/serve/output/harmony_reader.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::serve {
namespace {

constexpr std::array<std::string_view, 7> kTags = {"<|start|>",     "<|channel|>", "<|message|>", "<|end|>",
                                                   "<|constrain|>", "<|call|>",    "<|return|>"};
constexpr std::string_view kRecipient = "to=functions.";
constexpr size_t kLongestHeader = 512;

/// The function that a header addresses: "commentary to=functions.f json"; empty: none.
std::string recipient(std::string_view header) {
  const size_t at = header.find(kRecipient);
  if (at == std::string_view::npos) return "";
  header.remove_prefix(at + kRecipient.size());
  return std::string(header.substr(0, header.find_first_of(" <\n")));
}

/// Whether a header may begin like this, without any tag: " to=functions.f<|channel|>…".
bool may_begin_header(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return kRecipient.starts_with(text) || text.starts_with(kRecipient);
}

}  // namespace

std::vector<OutputPiece> HarmonyReader::put(std::string_view text) {
  for (const char byte : text) put_byte(byte);
  return out_.take();
}

std::vector<OutputPiece> HarmonyReader::finish() {
  for (const char byte : std::exchange(held_, {})) release(byte);
  if (in_header_ && !seen_tag_) out_.content(header_);
  end_message();
  return out_.take();
}

void HarmonyReader::put_byte(char byte) {
  held_ += byte;
  while (!held_.empty()) {
    const auto tag = std::find_if(kTags.begin(), kTags.end(), [&](auto text) { return text.starts_with(held_); });
    if (tag != kTags.end()) {
      if (*tag == held_) take_tag(std::exchange(held_, {}));
      return;
    }
    const char first = held_.front();
    held_.erase(0, 1);
    release(first);
  }
}

void HarmonyReader::take_tag(std::string_view tag) {
  seen_tag_ = true;
  if (in_header_) {
    if (tag == "<|message|>") return begin_body();
    header_ += tag;
    return;
  }
  if (tag == "<|message|>" || tag == "<|constrain|>") return;  // out of place
  end_message();
  in_header_ = true;
  header_ = tag == "<|channel|>" ? tag : "";
}

void HarmonyReader::begin_body() {
  in_header_ = false;
  function_ = recipient(header_);
  const bool analysis = header_.find("<|channel|>analysis") != std::string::npos;
  header_.clear();
  if (parts_.tools && !function_.empty()) {
    body_ = Body::kCall;
    arguments_.emplace();
  } else {
    body_ = analysis ? Body::kReasoning : Body::kContent;
  }
}

void HarmonyReader::release(char byte) {
  const char text[] = {byte, 0};
  if (in_header_) {
    header_ += byte;
    const bool no_header = !seen_tag_ && !may_begin_header(header_);
    if (!no_header && header_.size() <= kLongestHeader) return;
    in_header_ = false;
    body_ = Body::kContent;
    out_.content(std::exchange(header_, {}));
    return;
  }
  switch (body_) {
    case Body::kReasoning: return out_.reasoning(text);
    case Body::kContent: return out_.content(text);
    case Body::kCall: return put_call(byte);
    case Body::kBehindCall: return;
  }
}

/// Arguments pass on from the first bracket. A body that does not begin with one is content.
void HarmonyReader::put_call(char byte) {
  const bool in_string = arguments_->in_string();
  const bool begun = arguments_->depth() > 0;
  const JsonScanner::State state = byte == '[' && !begun ? JsonScanner::State::kInvalid : arguments_->put(byte);
  if (state == JsonScanner::State::kInvalid && !begun) {
    body_ = Body::kContent;
    out_.content(std::exchange(unread_, {}) + byte);
    return;
  }
  if (!begun && arguments_->depth() == 0) {
    unread_ += byte;
    return;
  }
  if (!begun) begin_call();
  if (state != JsonScanner::State::kInvalid) out_.arguments(json_escaped(byte, in_string));
  if (state == JsonScanner::State::kMore) return;
  out_.end_call();
  body_ = Body::kBehindCall;
}

void HarmonyReader::begin_call() {
  unread_.clear();
  out_.begin_call(function_);
}

/// A call whose body is empty has no arguments.
void HarmonyReader::end_message() {
  if (in_header_ || body_ != Body::kCall) return;
  if (arguments_->depth() == 0) {
    begin_call();
    out_.arguments("{}");
  }
  out_.end_call();
  body_ = Body::kBehindCall;
}

}  // namespace lockstep::serve
