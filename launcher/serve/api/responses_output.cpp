#include "launcher/serve/api/responses_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/serve/api/named_event.h"

namespace lockstep::serve {

ResponseOutput::ResponseOutput(std::string id) : id_(std::move(id)), items_(std::make_unique<Json>(Json::array())) {}
ResponseOutput::~ResponseOutput() = default;

const Json& ResponseOutput::items() const { return *items_; }

std::string ResponseOutput::event(std::string_view type, const Json& fields) {
  Json value = {{"type", type}, {"sequence_number", sequence_++}};
  value.update(fields);
  return named_event(value);
}

std::string ResponseOutput::put(const OutputPiece& piece) {
  using Kind = OutputPiece::Kind;
  switch (piece.kind) {
    case Kind::kReasoning: return append(Item::kReasoning, piece.text);
    case Kind::kContent: return append(Item::kMessage, piece.text);
    case Kind::kToolBegin: return begin(Item::kCall, piece.text);
    case Kind::kToolArguments: return append(Item::kCall, piece.text);
    case Kind::kToolEnd: return end("completed");
  }
  return {};
}

std::string ResponseOutput::append(Item kind, std::string_view text) {
  std::string bytes;
  if (open_ != kind) bytes = begin(kind, "");
  text_ += text;
  if (text.empty()) return bytes;
  Json fields = place(kind != Item::kCall);
  fields["delta"] = text;
  if (kind == Item::kCall) return bytes + event("response.function_call_arguments.delta", fields);
  if (kind == Item::kReasoning) return bytes + event("response.reasoning_text.delta", fields);
  fields["logprobs"] = Json::array();
  return bytes + event("response.output_text.delta", fields);
}

std::string ResponseOutput::begin(Item kind, std::string_view name) {
  std::string bytes = end("completed");
  constexpr std::string_view kPrefixes[] = {"rs", "msg", "fc"};
  open_ = kind;
  item_id_ = fmt::format("{}_{}_{}", kPrefixes[static_cast<int>(kind)], id_, items_->size());
  name_ = name;
  if (kind == Item::kCall) call_id_ = fmt::format("call_{}_{}", id_, calls_++);
  bytes += event("response.output_item.added", {{"output_index", items_->size()}, {"item", item_json("in_progress")}});
  if (kind == Item::kCall) return bytes;
  Json fields = place(true);
  fields["part"] = part_json("");
  return bytes + event("response.content_part.added", fields);
}

std::string ResponseOutput::end(std::string_view status) {
  if (!open_) return {};
  const Item kind = *open_;
  const bool has_part = kind != Item::kCall;
  Json fields = place(has_part);
  std::string bytes;
  if (kind == Item::kCall) {
    fields["name"] = name_;
    fields["arguments"] = text_;
    bytes = event("response.function_call_arguments.done", fields);
  } else {
    fields["text"] = text_;
    if (kind == Item::kMessage) fields["logprobs"] = Json::array();
    bytes = event(kind == Item::kMessage ? "response.output_text.done" : "response.reasoning_text.done", fields);
    Json part = place(true);
    part["part"] = part_json(text_);
    bytes += event("response.content_part.done", part);
  }
  const Json item = item_json(status);
  bytes += event("response.output_item.done", {{"output_index", items_->size()}, {"item", item}});
  items_->push_back(item);
  open_.reset();
  text_.clear();
  return bytes;
}

std::string ResponseOutput::finish(std::string_view status) {
  std::string bytes;
  if (!open_ && items_->empty()) bytes = begin(Item::kMessage, "");
  return bytes + end(status);
}

Json ResponseOutput::place(bool in_part) const {
  Json fields = {{"item_id", item_id_}, {"output_index", items_->size()}};
  if (in_part) fields["content_index"] = 0;
  return fields;
}

Json ResponseOutput::part_json(std::string_view text) const {
  if (open_ == Item::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

/// The open item. While it is in progress, its content is still empty.
Json ResponseOutput::item_json(std::string_view status) const {
  const bool ended = status != "in_progress";
  if (open_ == Item::kCall) {
    return {{"id", item_id_}, {"type", "function_call"}, {"status", status},
            {"name", name_},  {"call_id", call_id_},     {"arguments", ended ? text_ : ""}};
  }
  Json content = Json::array();
  if (ended) content.push_back(part_json(text_));
  if (open_ == Item::kReasoning) {
    return {{"id", item_id_},
            {"type", "reasoning"},
            {"status", status},
            {"summary", Json::array()},
            {"content", std::move(content)}};
  }
  return {{"id", item_id_},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

}  // namespace lockstep::serve
