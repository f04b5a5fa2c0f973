#include "runtime/checkpoint/pickle_machine.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/pickle_names.h"

namespace lockstep::checkpoint {
namespace {

constexpr size_t kMostValues = size_t{1} << 22;  // ten times the number in the largest models
constexpr size_t kMostDimensions = 8;
constexpr size_t kLongestName = 1024;  // of a storage: bounds the memory of many copies of one name
constexpr size_t kLongestShownName = 120;

}  // namespace

Error PickleMachine::malformed(std::string_view found_and_expected) const {
  return damaged(origin_, found_and_expected);
}

Error PickleMachine::refused(std::string_view what) const {
  return {ErrorKind::kUnsupported,
          fmt::format("[runtime/checkpoint] cannot read {}: found {}, expected tensors and plain containers only; it "
                      "could run code, so load it where you trust it and save its state dict as safetensors",
                      origin_, what)};
}

Result<std::string_view> PickleMachine::take(uint64_t size) {
  if (size > rest_.size()) return malformed(fmt::format("found {} bytes, expected {} more", rest_.size(), size));
  const std::string_view bytes(reinterpret_cast<const char*>(rest_.data()), size);
  rest_ = rest_.subspan(size);
  return bytes;
}

template <typename T>
Result<T> PickleMachine::take_number() {
  LOCKSTEP_TRY(const std::string_view bytes, take(sizeof(T)));
  T number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

Result<std::string_view> PickleMachine::take_line() {
  const std::string_view all(reinterpret_cast<const char*>(rest_.data()), rest_.size());
  const size_t end = all.find('\n');
  if (end == std::string_view::npos) return malformed("found no end of a line, expected a line");
  LOCKSTEP_TRY(const std::string_view line, take(end + 1));
  return line.substr(0, end);
}

Result<void> PickleMachine::push(PickleValue value) {
  if (values_.size() == kMostValues) return malformed(fmt::format("found more than {} values", kMostValues));
  stack_.push_back(static_cast<uint32_t>(values_.size()));
  values_.push_back(std::move(value));
  return ok();
}

Result<uint32_t> PickleMachine::pop() {
  if (top() == nullptr) return malformed("found an empty stack, expected a value");
  const uint32_t index = stack_.back();
  stack_.pop_back();
  return index;
}

Result<std::vector<uint32_t>> PickleMachine::pop_several(size_t count) {
  if (stack_.size() - floor() < count) return malformed(fmt::format("found fewer values than {}", count));
  std::vector<uint32_t> popped(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return popped;
}

Result<std::vector<uint32_t>> PickleMachine::pop_to_mark() {
  if (marks_.empty()) return malformed("found no mark, expected one");
  LOCKSTEP_TRY(std::vector<uint32_t> popped, pop_several(stack_.size() - floor()));
  marks_.pop_back();
  return popped;
}

Result<void> PickleMachine::memoize(uint64_t slot) {
  if (top() == nullptr) return malformed("found an empty stack, expected a value");
  memo_[slot] = stack_.back();
  return ok();
}

Result<void> PickleMachine::recall(uint64_t slot) {
  const auto it = memo_.find(slot);
  if (it == memo_.end()) return malformed(fmt::format("found memo {}, expected one that was set", slot));
  if (stack_.size() == kMostValues) return malformed(fmt::format("found more than {} values", kMostValues));
  stack_.push_back(it->second);
  return ok();
}

Result<void> PickleMachine::push_text(uint64_t size) {
  LOCKSTEP_TRY(const std::string_view text, take(size));
  return push({.kind = PickleKind::kText, .text = text});
}

/// A little-endian two's complement number of up to eight bytes.
Result<void> PickleMachine::push_long() {
  LOCKSTEP_TRY(const uint8_t size, take_number<uint8_t>());
  LOCKSTEP_TRY(const std::string_view bytes, take(size));
  if (size > sizeof(int64_t)) return malformed(fmt::format("found a number of {} bytes, expected at most 8", size));
  int64_t number = size > 0 && (bytes.back() & 0x80) != 0 ? -1 : 0;
  std::memcpy(&number, bytes.data(), size);
  return push({.kind = PickleKind::kNumber, .number = number});
}

Result<void> PickleMachine::push_name(std::string_view module, std::string_view name) {
  if (const std::optional<Callable> callable = find_callable(module, name)) {
    return push({.kind = PickleKind::kCallable, .number = static_cast<int64_t>(*callable)});
  }
  if (const std::string_view dtype = storage_dtype(module, name); !dtype.empty()) {
    return push({.kind = PickleKind::kStorageType, .text = dtype});
  }
  return refused(fmt::format("the name {}.{}", module.substr(0, kLongestShownName), name.substr(0, kLongestShownName)));
}

Result<void> PickleMachine::push_stacked_name() {
  LOCKSTEP_TRY(const auto names, pop_several(2));
  if (value(names[0]).kind != PickleKind::kText || value(names[1]).kind != PickleKind::kText) {
    return malformed("found a name that is not text");
  }
  return push_name(value(names[0]).text, value(names[1]).text);
}

/// Whether the optional view (key, first element, elements) of a storage, from torch before 1.6, covers all of it.
bool PickleMachine::is_whole_storage(const PickleValue& view) const {
  if (view.kind == PickleKind::kNone) return true;
  return view.kind == PickleKind::kTuple && view.parts.size() == 3 &&
         value(view.parts[1]).kind == PickleKind::kNumber && value(view.parts[1]).number == 0;
}

/// ("storage", type, key, location, elements[, view]): the persistent id of a storage.
Result<void> PickleMachine::push_storage() {
  LOCKSTEP_TRY(const uint32_t index, pop());
  const PickleValue& id = value(index);
  const bool right = id.kind == PickleKind::kTuple && id.parts.size() >= 5 &&
                     value(id.parts[0]).kind == PickleKind::kText && value(id.parts[0]).text == "storage" &&
                     value(id.parts[1]).kind == PickleKind::kStorageType &&
                     value(id.parts[2]).kind == PickleKind::kText && value(id.parts[2]).text.size() <= kLongestName &&
                     value(id.parts[4]).kind == PickleKind::kNumber && value(id.parts[4]).number >= 0;
  if (!right) return refused("a persistent id that is not (\"storage\", type, key, location, elements)");
  if (id.parts.size() > 5 && !is_whole_storage(value(id.parts[5]))) return refused("a view of a storage");
  return push({.kind = PickleKind::kStorage,
               .number = value(id.parts[4]).number,
               .text = value(id.parts[2]).text,
               .parts = {id.parts[1]}});
}

Result<void> PickleMachine::push_container(PickleKind kind, Result<std::vector<uint32_t>> parts) {
  LOCKSTEP_TRY(std::vector<uint32_t> taken, std::move(parts));
  return push({.kind = kind, .parts = std::move(taken)});
}

/// Appends to the list or dict on the stack.
Result<void> PickleMachine::add_to(PickleKind kind, Result<std::vector<uint32_t>> parts) {
  LOCKSTEP_TRY(const std::vector<uint32_t> taken, std::move(parts));
  PickleValue* container = top();
  if (container == nullptr || container->kind != kind) return malformed("found items without their list or dict");
  if (kind == PickleKind::kDict && taken.size() % 2 != 0) return malformed("found a key without a value");
  container->parts.insert(container->parts.end(), taken.begin(), taken.end());
  return ok();
}

Result<void> PickleMachine::call() {
  LOCKSTEP_TRY(const auto operands, pop_several(2));
  const PickleValue& callable = value(operands[0]);
  const PickleValue& arguments = value(operands[1]);
  if (callable.kind != PickleKind::kCallable) return refused("a call of something that is not a function");
  if (arguments.kind != PickleKind::kTuple) return malformed("found a call without a tuple of arguments");
  switch (static_cast<Callable>(callable.number)) {
    case Callable::kOrderedDict:
      if (!arguments.parts.empty()) return refused("collections.OrderedDict with arguments");
      return push({.kind = PickleKind::kDict});
    case Callable::kSize:
      if (arguments.parts.size() != 1 || value(arguments.parts[0]).kind != PickleKind::kTuple) {
        return malformed("found torch.Size of something that is not a tuple");
      }
      stack_.push_back(arguments.parts[0]);
      return ok();
    case Callable::kRebuildTensor: return rebuild_tensor(arguments);
    case Callable::kRebuildParameter:
      if (arguments.parts.empty() || value(arguments.parts[0]).kind != PickleKind::kTensor) {
        return malformed("found a parameter that is not a tensor");
      }
      stack_.push_back(arguments.parts[0]);
      return ok();
  }
  return refused("a call");
}

Result<std::vector<int64_t>> PickleMachine::dimensions(const PickleValue& tuple) const {
  if (tuple.kind != PickleKind::kTuple || tuple.parts.size() > kMostDimensions) {
    return malformed(fmt::format("found a tensor's shape that is not a tuple of at most {}", kMostDimensions));
  }
  std::vector<int64_t> numbers;
  for (const uint32_t part : tuple.parts) {
    if (value(part).kind != PickleKind::kNumber || value(part).number < 0) {
      return malformed("found a dimension or stride that is not a whole number");
    }
    numbers.push_back(value(part).number);
  }
  return numbers;
}

/// (storage, first element, shape, strides, requires_grad, backward hooks[, metadata])
Result<void> PickleMachine::rebuild_tensor(const PickleValue& arguments) {
  const std::vector<uint32_t>& parts = arguments.parts;
  if (parts.size() < 4 || value(parts[0]).kind != PickleKind::kStorage || value(parts[1]).kind != PickleKind::kNumber ||
      value(parts[1]).number < 0) {
    return malformed("found a tensor without storage and offset");
  }
  const PickleValue& storage = value(parts[0]);
  PickledTensor tensor{.storage = std::string(storage.text),
                       .dtype = value(storage.parts[0]).text,
                       .storage_elements = storage.number,
                       .first = value(parts[1]).number};
  LOCKSTEP_TRY(tensor.shape, dimensions(value(parts[2])));
  LOCKSTEP_TRY(tensor.strides, dimensions(value(parts[3])));
  if (tensor.shape.size() != tensor.strides.size()) return malformed("found a tensor with too few or many strides");
  tensors_.push_back(std::move(tensor));
  return push({.kind = PickleKind::kTensor, .number = static_cast<int64_t>(tensors_.size()) - 1});
}

/// The attributes of an OrderedDict (`_metadata` of a state dict): unused plain values.
Result<void> PickleMachine::build() {
  LOCKSTEP_TRY(const uint32_t state, pop());
  if (top() == nullptr || top()->kind != PickleKind::kDict || value(state).kind != PickleKind::kDict) {
    return refused("the state of an object");
  }
  return ok();
}

/// The operations used by torch.save (protocol 2): a table in the form of a switch, one line each.
Result<void> PickleMachine::execute(uint8_t operation) {
  switch (operation) {
    case '(': marks_.push_back(stack_.size()); return ok();
    case 'N': return push({.kind = PickleKind::kNone});
    case 0x88: return push({.kind = PickleKind::kNumber, .number = 1});
    case 0x89: return push({.kind = PickleKind::kNumber, .number = 0});
    case '}': return push({.kind = PickleKind::kDict});
    case ']': return push({.kind = PickleKind::kList});
    case ')': return push({.kind = PickleKind::kTuple});
    case 't': return push_container(PickleKind::kTuple, pop_to_mark());
    case 0x85: return push_container(PickleKind::kTuple, pop_several(1));
    case 0x86: return push_container(PickleKind::kTuple, pop_several(2));
    case 0x87: return push_container(PickleKind::kTuple, pop_several(3));
    case 'a': return add_to(PickleKind::kList, pop_several(1));
    case 'e': return add_to(PickleKind::kList, pop_to_mark());
    case 's': return add_to(PickleKind::kDict, pop_several(2));
    case 'u': return add_to(PickleKind::kDict, pop_to_mark());
    case 'Q': return push_storage();
    case 'R': return call();
    case 'b': return build();
    case 0x93: return push_stacked_name();
    case 0x94: return memoize(memo_.size());
    case 0x8a: return push_long();
    default: return execute_rest(operation);
  }
}

/// The operations with operands in the program.
Result<void> PickleMachine::execute_rest(uint8_t operation) {
  const auto number = [this](auto result) -> Result<void> {
    LOCKSTEP_TRY(const auto taken, std::move(result));
    return push({.kind = PickleKind::kNumber, .number = taken});
  };
  const auto with = [this](auto operand, Result<void> (PickleMachine::*next)(uint64_t)) -> Result<void> {
    LOCKSTEP_TRY(const auto taken, std::move(operand));
    return (this->*next)(taken);
  };
  switch (operation) {
    case 'K': return number(take_number<uint8_t>());
    case 'M': return number(take_number<uint16_t>());
    case 'J': return number(take_number<int32_t>());
    case 'X': return with(take_number<uint32_t>(), &PickleMachine::push_text);
    case 0x8c: return with(take_number<uint8_t>(), &PickleMachine::push_text);
    case 0x8d: return with(take_number<uint64_t>(), &PickleMachine::push_text);
    case 'q': return with(take_number<uint8_t>(), &PickleMachine::memoize);
    case 'r': return with(take_number<uint32_t>(), &PickleMachine::memoize);
    case 'h': return with(take_number<uint8_t>(), &PickleMachine::recall);
    case 'j': return with(take_number<uint32_t>(), &PickleMachine::recall);
    case 'G': {
      LOCKSTEP_TRY_VOID(take(sizeof(double)));
      return push({.kind = PickleKind::kReal});
    }
    case 0x95: {  // length of the next frame
      LOCKSTEP_TRY_VOID(take(sizeof(uint64_t)));
      return ok();
    }
    case 'c': {
      LOCKSTEP_TRY(const std::string_view module, take_line());
      LOCKSTEP_TRY(const std::string_view name, take_line());
      return push_name(module, name);
    }
    default: return refused(fmt::format("the pickle operation 0x{:02x}", operation));
  }
}

Result<uint32_t> PickleMachine::run() {
  LOCKSTEP_TRY(const std::string_view start, take(2));
  if (start[0] != '\x80' || start[1] < 2 || start[1] > 5) {
    return malformed("found no pickle of protocol 2 to 5");
  }
  while (true) {
    LOCKSTEP_TRY(const uint8_t operation, take_number<uint8_t>());
    if (operation == '.') return pop();
    LOCKSTEP_TRY_VOID(execute(operation));
  }
}

}  // namespace lockstep::checkpoint
