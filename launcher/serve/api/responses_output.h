// The output items of a response, and the events that describe how they grow.
//
//   response.output_item.added ─► response.content_part.added ─► …delta … ─► …done ─► response.content_part.done
//                                                                                  ─► response.output_item.done
//   A call has no content part.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/serve/api/body_field.h"
#include "launcher/serve/output/output_reader.h"

namespace lockstep::serve {

class ResponseOutput {
 public:
  /// `id`: the request's; ids of items contain it.
  explicit ResponseOutput(std::string id);
  ~ResponseOutput();

  /// The events of a piece.
  std::string put(const OutputPiece& piece);
  /// Ends the open item; without any item, an empty message is the output. `status`: "completed" or "incomplete".
  std::string finish(std::string_view status);

  /// An event with the next sequence number, which is put behind its type.
  std::string event(std::string_view type, const Json& fields);
  /// The list of items that have ended.
  const Json& items() const;

 private:
  enum class Item { kReasoning, kMessage, kCall };

  std::string append(Item kind, std::string_view text);
  std::string begin(Item kind, std::string_view name);
  std::string end(std::string_view status);
  Json item_json(std::string_view status) const;
  Json part_json(std::string_view text) const;
  Json place(bool in_part) const;

  std::string id_;
  std::unique_ptr<Json> items_;
  std::optional<Item> open_;
  std::string item_id_, call_id_, name_, text_;  // of the open item
  int calls_ = 0;
  int64_t sequence_ = 0;
};

}  // namespace lockstep::serve
