#include "tests/neuron_stand_in/interpreter/storage_plan.h"

#include <algorithm>
#include <map>

namespace lockstep::stand_in {
namespace {

namespace hlo = neuron::hlo;
using hlo::Opcode;

constexpr size_t kMostConstantBytes = size_t{1} << 20;  // larger ones are computed again every run

size_t bytes_of(const hlo::Type& type) { return static_cast<size_t>(type.elements()) * hlo::size_of(type.element); }

bool is_view(Opcode opcode) { return opcode == Opcode::kReshape || opcode == Opcode::kGetTupleElement; }

class Planner {
 public:
  explicit Planner(const hlo::Module& module)
      : module_(module), instructions_(module.entry().instructions), last_use_(instructions_.size(), -1) {}

  StoragePlan plan() {
    find_last_uses();
    find_states_written_in_place();
    const size_t count = instructions_.size();
    plan_.of.resize(count);
    plan_.is_constant.resize(count);
    plan_.parameters.resize(hlo::parameters_of(module_).size(), -1);
    for (size_t i = 0; i < count; ++i) {
      place(i);
      release_after(static_cast<int>(i));
    }
    return std::move(plan_);
  }

 private:
  const hlo::Instruction& at(int index) const { return instructions_[static_cast<size_t>(index)]; }

  /// The instruction whose storage `index` lies in.
  int source_of(int index) const {
    while (is_view(at(index).opcode)) index = at(index).operands[0];
    return index;
  }

  void find_last_uses() {
    const auto end = static_cast<int>(instructions_.size());
    for (int i = 0; i < end; ++i) {
      const bool is_root = i == module_.entry().root;
      for (const int operand : at(i).operands) {
        int& last = last_use_[static_cast<size_t>(source_of(operand))];
        last = is_root ? end : std::max(last, i);
      }
    }
  }

  /// Scatters between a parameter and its aliased output, if nothing reads the overwritten elements.
  void find_states_written_in_place() {
    const auto& outputs = at(module_.entry().root).operands;
    for (const hlo::Alias& alias : module_.aliases) {
      std::vector<int> chain;
      int index = outputs[static_cast<size_t>(alias.output)];
      while (at(index).opcode == Opcode::kScatter && last_use_[static_cast<size_t>(at(index).operands[0])] == index) {
        chain.push_back(index);
        index = at(index).operands[0];
      }
      const bool reaches = at(index).opcode == Opcode::kParameter && at(index).number == alias.parameter;
      if (reaches) in_place_.insert(in_place_.end(), chain.begin(), chain.end());
    }
  }

  int new_storage(size_t bytes) {
    plan_.bytes.push_back(bytes);
    return static_cast<int>(plan_.bytes.size()) - 1;
  }

  /// A free storage that is large enough and not much too large, or a new one.
  int take_storage(size_t bytes) {
    const auto found = free_.lower_bound(bytes);
    if (found == free_.end() || found->first > 2 * bytes + 4096) return new_storage(bytes);
    const int storage = found->second;
    free_.erase(found);
    return storage;
  }

  bool depends_on_constants(const hlo::Instruction& instruction) const {
    if (instruction.opcode == Opcode::kConstant) return true;
    const bool may_differ = instruction.opcode == Opcode::kParameter || instruction.opcode == Opcode::kTuple ||
                            instruction.opcode == Opcode::kAllReduce || instruction.opcode == Opcode::kAllGather;
    if (may_differ || !instruction.type.parts.empty() || bytes_of(instruction.type) > kMostConstantBytes) return false;
    return std::all_of(instruction.operands.begin(), instruction.operands.end(),
                       [&](int operand) { return plan_.is_constant[static_cast<size_t>(operand)]; });
  }

  void place(size_t index) {
    const hlo::Instruction& instruction = instructions_[index];
    std::vector<int>& storages = plan_.of[index];
    plan_.is_constant[index] = depends_on_constants(instruction);
    const auto operand = [&](size_t i) -> const std::vector<int>& {
      return plan_.of[static_cast<size_t>(instruction.operands[i])];
    };
    if (instruction.opcode == Opcode::kParameter) {
      storages = {new_storage(0)};
      plan_.parameters[static_cast<size_t>(instruction.number)] = storages[0];
    } else if (instruction.opcode == Opcode::kTuple) {
      for (size_t i = 0; i < instruction.operands.size(); ++i) storages.push_back(operand(i)[0]);
    } else if (instruction.opcode == Opcode::kReshape) {
      storages = operand(0);
    } else if (instruction.opcode == Opcode::kGetTupleElement) {
      storages = {operand(0)[static_cast<size_t>(instruction.number)]};
    } else if (std::find(in_place_.begin(), in_place_.end(), static_cast<int>(index)) != in_place_.end()) {
      storages = operand(0);
    } else if (!instruction.type.parts.empty()) {
      for (const hlo::Type& part : instruction.type.parts) storages.push_back(take_storage(bytes_of(part)));
    } else {
      const size_t bytes = bytes_of(instruction.type);
      storages = {plan_.is_constant[index] ? new_storage(bytes) : take_storage(bytes)};
    }
    if (!is_view(instruction.opcode)) dying_.emplace(last_use_[index], static_cast<int>(index));
  }

  /// Frees the storages whose last reader was `index`.
  void release_after(int index) {
    const auto [begin, end] = dying_.equal_range(index);
    for (auto it = begin; it != end; ++it) {
      const auto source = static_cast<size_t>(it->second);
      const Opcode opcode = instructions_[source].opcode;
      const bool is_kept = opcode == Opcode::kParameter || opcode == Opcode::kTuple || plan_.is_constant[source] ||
                           std::find(in_place_.begin(), in_place_.end(), it->second) != in_place_.end();
      if (is_kept) continue;
      for (const int storage : plan_.of[source]) free_.emplace(plan_.bytes[static_cast<size_t>(storage)], storage);
    }
    dying_.erase(begin, end);
  }

  const hlo::Module& module_;
  const std::vector<hlo::Instruction>& instructions_;
  std::vector<int> last_use_;        // by source: the last instruction that reads it; the end for outputs
  std::vector<int> in_place_;        // instructions that write into their first operand
  std::multimap<int, int> dying_;    // sources by their last use
  std::multimap<size_t, int> free_;  // storages by size
  StoragePlan plan_;
};

}  // namespace

StoragePlan plan_storage(const neuron::hlo::Module& module) { return Planner(module).plan(); }

}  // namespace lockstep::stand_in
