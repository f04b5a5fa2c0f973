#include "runtime/generation/logits_processor.h"

#include <algorithm>
#include <typeinfo>

namespace lockstep::generation {

void ProcessorChain::merge(std::span<const std::shared_ptr<const LogitsProcessor>> users) {
  const auto has_type = [](const LogitsProcessor& wanted) {
    return [&wanted](const auto& one) {
      const LogitsProcessor& processor = *one;
      return typeid(processor) == typeid(wanted);
    };
  };
  for (auto& own : chain_) {
    const auto replacement = std::ranges::find_if(users, has_type(*own));
    if (replacement != users.end()) own = *replacement;
  }
  for (const auto& user : users) {
    if (std::ranges::find(chain_, user) == chain_.end()) chain_.push_back(user);
  }
}

}  // namespace lockstep::generation
