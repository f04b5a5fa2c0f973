#include "runtime/checkpoint/pickle_names.h"

namespace lockstep::checkpoint {
namespace {

struct KnownName {
  std::string_view module, name;
  Callable callable;
};
constexpr KnownName kCallables[] = {{"collections", "OrderedDict", Callable::kOrderedDict},
                                    {"torch", "Size", Callable::kSize},
                                    {"torch._utils", "_rebuild_tensor", Callable::kRebuildTensor},
                                    {"torch._utils", "_rebuild_tensor_v2", Callable::kRebuildTensor},
                                    {"torch._utils", "_rebuild_parameter", Callable::kRebuildParameter}};

struct StorageName {
  std::string_view name, dtype;
};
constexpr StorageName kStorages[] = {
    {"FloatStorage", "F32"},  {"BFloat16Storage", "BF16"},    {"HalfStorage", "F16"},
    {"DoubleStorage", "F64"}, {"LongStorage", "I64"},         {"IntStorage", "I32"},
    {"ShortStorage", "I16"},  {"CharStorage", "I8"},          {"ByteStorage", "U8"},
    {"BoolStorage", "BOOL"},  {"ComplexFloatStorage", "C64"}, {"ComplexDoubleStorage", "C128"}};

}  // namespace

std::optional<Callable> find_callable(std::string_view module, std::string_view name) {
  for (const KnownName& known : kCallables) {
    if (module == known.module && name == known.name) return known.callable;
  }
  return std::nullopt;
}

std::string_view storage_dtype(std::string_view module, std::string_view name) {
  if (module != "torch") return {};
  for (const StorageName& storage : kStorages) {
    if (name == storage.name) return storage.dtype;
  }
  return {};
}

}  // namespace lockstep::checkpoint
