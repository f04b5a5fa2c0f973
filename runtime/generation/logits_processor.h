// The interface of logits processors. They change a row's scores before a token is chosen. The files `…_processors.h`
// hold those of Hugging Face's transformers; users can add their own.
//
//   raw logits ─► processor ─► processor ─► … ─► scores ─► argmax, draw or beams
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::generation {

/// Used by one thread at a time.
class LogitsProcessor {
 public:
  virtual ~LogitsProcessor() = default;

  /// Changes `scores` f32 [V], by id, in place; −inf excludes an id. `ids` are the row's prompt and output so far.
  virtual void process(std::span<const int32_t> ids, std::span<float> scores) const = 0;

  /// Processes all rows of a request, `scores` f32 [rows, V]. The default processes each row separately.
  virtual void process_rows(std::span<const std::vector<int32_t>> rows, std::span<float> scores) const {
    const size_t vocabulary = scores.size() / rows.size();
    for (size_t r = 0; r < rows.size(); ++r) process(rows[r], scores.subspan(r * vocabulary, vocabulary));
  }
};

/// Processors in their order of application. Shared, because users pass the same one to many requests.
class ProcessorChain {
 public:
  void add(std::shared_ptr<const LogitsProcessor> processor) { chain_.push_back(std::move(processor)); }

  /// Adds users' processors in order. One with the type of an existing processor replaces it.
  void merge(std::span<const std::shared_ptr<const LogitsProcessor>> users);

  void process(std::span<const int32_t> ids, std::span<float> scores) const {
    for (const auto& processor : chain_) processor->process(ids, scores);
  }
  void process_rows(std::span<const std::vector<int32_t>> rows, std::span<float> scores) const {
    for (const auto& processor : chain_) processor->process_rows(rows, scores);
  }

  size_t size() const { return chain_.size(); }

 private:
  std::vector<std::shared_ptr<const LogitsProcessor>> chain_;
};

}  // namespace lockstep::generation
