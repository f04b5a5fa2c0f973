#include "launcher/serve/api/conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::serve {

struct Conversation::Turn {
  std::string role, text;
  Json more = Json::object();
};

Conversation::Conversation(UserTexts user_texts) : user_texts_(user_texts) {}
Conversation::~Conversation() = default;

/// The assistant's current message, or another one.
Conversation::Turn& Conversation::assistant() {
  if (turns_.empty() || turns_.back().role != "assistant") turns_.push_back({.role = "assistant", .text = ""});
  Turn& turn = turns_.back();
  if (!reasoning_.empty()) turn.more["reasoning_content"] = std::exchange(reasoning_, {});
  return turn;
}

/// Whether a text of `role`, which is not the assistant's, becomes part of the last message.
bool Conversation::joins_last(std::string_view role) const {
  if (role != "user" || turns_.empty()) return false;
  const std::string& last = turns_.back().role;
  if (last == "user") return user_texts_ != UserTexts::kSeparate;
  return last == "tool" && user_texts_ == UserTexts::kJoinedToResults;
}

void Conversation::add_text(std::string_view role, std::string_view text) {
  if (role == "assistant" || joins_last(role)) {
    Turn& turn = role == "assistant" ? assistant() : turns_.back();
    if (!turn.text.empty()) turn.text += "\n";
    turn.text += text;
    return;
  }
  const auto is_system = [](std::string_view name) { return name == "system" || name == "developer"; };
  const bool all_system = std::ranges::all_of(turns_, [&](const Turn& turn) { return is_system(turn.role); });
  if (is_system(role) && all_system && !turns_.empty()) {
    turns_.back().text += "\n\n";
    turns_.back().text += text;
    return;
  }
  turns_.push_back({.role = std::string(role), .text = std::string(text)});
}

void Conversation::add_call(const std::string& id, const std::string& name, const Json& arguments) {
  Json call = {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  assistant().more["tool_calls"].push_back(std::move(call));
  names_[id] = name;
}

void Conversation::add_result(const std::string& id, std::string_view text) {
  Turn turn{.role = "tool", .text = std::string(text)};
  turn.more["tool_call_id"] = id;
  if (const auto name = names_.find(id); name != names_.end()) turn.more["name"] = name->second;
  turns_.push_back(std::move(turn));
}

void Conversation::add_reasoning(std::string_view text) { reasoning_ += text; }

bool Conversation::empty() const { return turns_.empty(); }

bool Conversation::ends_with_text_of_assistant() const {
  if (turns_.empty()) return false;
  const Turn& last = turns_.back();
  return last.role == "assistant" && !last.text.empty() && !last.more.contains("tool_calls");
}

std::vector<text::Message> Conversation::take() {
  std::vector<text::Message> messages;
  for (Turn& turn : turns_) {
    const std::string more = turn.more.empty() ? std::string() : to_line(turn.more);
    messages.push_back({.role = std::move(turn.role), .content = std::move(turn.text), .fields_json = more});
  }
  turns_.clear();
  return messages;
}

}  // namespace lockstep::serve
