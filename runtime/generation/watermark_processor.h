// Watermarking of generated text (Kirchenbauer et al., 2023). It favours a green list of ids, chosen by the preceding
// ids. The lists are those of Hugging Face's transformers on a CPU, so their detector finds the watermark.
#pragma once

#include "runtime/generation/generation_config.h"
#include "runtime/generation/logits_processor.h"

namespace lockstep::generation {

class WatermarkBias final : public LogitsProcessor {
 public:
  explicit WatermarkBias(const Watermark& watermark);

  /// Rows shorter than the context are not changed.
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  uint32_t seed_after(std::span<const int32_t> ids) const;
  std::vector<int32_t> green_after(std::span<const int32_t> ids, size_t vocabulary) const;
  std::vector<int32_t> self_chosen(std::span<const int32_t> ids, std::span<const float> scores) const;

  Watermark watermark_;
  std::vector<int32_t> table_;  // for the scheme that hashes the new id
};

}  // namespace lockstep::generation
