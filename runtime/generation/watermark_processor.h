// Watermarks text by favouring a part of the vocabulary that the ids before it choose (Kirchenbauer et al., 2023), with
// the lists that Hugging Face's transformers choose on a CPU, so that their detector finds it.
#pragma once

#include "runtime/generation/generation_config.h"
#include "runtime/generation/logits_processor.h"

namespace lockstep::generation {

class WatermarkBias final : public LogitsProcessor {
 public:
  explicit WatermarkBias(const Watermark& watermark);

  /// Rows shorter than the context stay as they are.
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  uint32_t seed_after(std::span<const int32_t> ids) const;
  std::vector<int32_t> green_after(std::span<const int32_t> ids, size_t vocabulary) const;
  std::vector<int32_t> self_chosen(std::span<const int32_t> ids, std::span<const float> scores) const;

  Watermark watermark_;
  std::vector<int32_t> table_;  // of the scheme that hashes with the new id
};

}  // namespace lockstep::generation
