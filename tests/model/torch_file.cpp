// torch.save, byte by byte except for the archive's serialization id. Zip: PKWARE's APPNOTE.TXT; as torch does it,
// sizes and checksum stand behind a member's data (flag 3) and in the central directory. Pickle: opcodes as pickletools
// names them, memoised in the order of CPython's pickler.
#include <array>
#include <fstream>
#include <map>

#include "tests/model/stored_tensor.h"

namespace lockstep::model {
namespace {

/// Appends the `bytes` low bytes of `value`, lowest first.
void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint32_t crc32(std::string_view data) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit) table[i] = (table[i] >> 1) ^ ((table[i] & 1u) ? 0xedb88320u : 0u);
    }
    return table;
  }();
  uint32_t crc = ~0u;
  for (const char c : data) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xffu] ^ (crc >> 8);
  return ~crc;
}

/// A zip archive without compression, in memory.
class ZipArchive {
 public:
  explicit ZipArchive(std::string folder) : folder_(std::move(folder)) {}

  void add(const std::string& member, std::string_view data) {
    const std::string name = folder_ + "/" + member;
    const uint64_t begin = members_.size();
    put(members_, 0x04034b50, 4);
    put_description(members_, {}, name);
    const size_t padding = (kAlignment - (members_.size() + 2 + name.size() + 4) % kAlignment) % kAlignment;
    put(members_, 4 + padding, 2);
    members_ += name + "FB";  // the extra field that aligns the data
    put(members_, padding, 2);
    members_.append(padding, 'Z');
    members_ += data;
    const Sums sums{crc32(data), data.size()};
    put(members_, 0x08074b50, 4);
    put_sums(members_, sums);
    put(directory_, 0x02014b50, 4);
    put(directory_, 0, 2);  // made by
    put_description(directory_, sums, name);
    directory_.append(12, 0);  // extra field, comment, disk, attributes
    put(directory_, begin, 4);
    directory_ += name;
    ++count_;
  }

  void write(const std::filesystem::path& path) const {
    std::string end;
    put(end, 0x06054b50, 4);
    put(end, 0, 4);  // disks
    put(end, count_, 2);
    put(end, count_, 2);
    put(end, directory_.size(), 4);
    put(end, members_.size(), 4);
    put(end, 0, 2);  // comment
    std::ofstream file(path, std::ios::binary);
    file << members_ << directory_ << end;
    LOCKSTEP_CHECK(file.good(), path.string());
  }

 private:
  static constexpr size_t kAlignment = 64;  // of a member's data in the archive

  struct Sums {
    uint32_t crc = 0;
    uint64_t size = 0;
  };

  static void put_sums(std::string& out, Sums sums) {
    put(out, sums.crc, 4);
    put(out, sums.size, 4);  // packed
    put(out, sums.size, 4);
  }

  /// The common part of a member's header and its entry in the directory.
  static void put_description(std::string& out, Sums sums, const std::string& name) {
    put(out, 0, 2);       // version
    put(out, 0x0808, 2);  // UTF-8, sums behind the data
    put(out, 0, 6);       // stored, no time
    put_sums(out, sums);
    put(out, name.size(), 2);
  }

  std::string folder_, members_, directory_;
  uint64_t count_ = 0;
};

class Pickler {
 public:
  Pickler() { text_ = "\x80\x02"; }  // PROTO 2

  void op(char opcode) { text_.push_back(opcode); }

  /// GLOBAL, or BINGET of an earlier one.
  void global(const std::string& module_and_name) {
    if (!recall("c" + module_and_name)) remember("c" + module_and_name);
  }
  /// BINUNICODE, or BINGET of an earlier one.
  void text(const std::string& value) {
    std::string pickled = "X";
    put(pickled, value.size(), 4);
    pickled += value;
    if (!recall(pickled)) remember(pickled);
  }
  void integer(int64_t value) {
    const bool one = value < 0x100, two = value < 0x10000;
    op(one ? 'K' : two ? 'M' : 'J');  // BININT1, BININT2, BININT
    put(text_, static_cast<uint64_t>(value), one ? 1 : two ? 2 : 4);
  }
  void integers(const std::vector<int64_t>& values) {
    if (values.empty()) return op(')');  // EMPTY_TUPLE
    if (values.size() > 3) op('(');      // MARK
    for (const int64_t value : values) integer(value);
    memoised(values.size() > 3 ? 't' : "\x85\x86\x87"[values.size() - 1]);  // TUPLE, or TUPLE1 to 3
  }
  /// An opcode whose result is memoised.
  void memoised(char opcode) {
    op(opcode);
    put_memo('q', 'r', memo_size_++);
  }
  void empty_ordered_dict() {
    global("collections\nOrderedDict\n");
    op(')');        // EMPTY_TUPLE
    memoised('R');  // REDUCE
  }
  const std::string& finish() {
    op('.');
    return text_;
  }

 private:
  bool recall(const std::string& pickled) {
    const auto found = memo_.find(pickled);
    if (found != memo_.end()) put_memo('h', 'j', found->second);
    return found != memo_.end();
  }
  void remember(const std::string& pickled) {
    text_ += pickled;
    memo_[pickled] = memo_size_;
    put_memo('q', 'r', memo_size_++);
  }
  /// BINPUT or BINGET, or their LONG_ forms.
  void put_memo(char short_form, char long_form, size_t index) {
    op(index < 0x100 ? short_form : long_form);
    put(text_, index, index < 0x100 ? 1 : 4);
  }

  std::string text_;
  std::map<std::string, size_t> memo_;  // of repeatedly pickled values
  size_t memo_size_ = 0;
};

std::string storage_class(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "torch\nFloatStorage\n";
    case DType::kBFloat16: return "torch\nBFloat16Storage\n";
    case DType::kFloat16: return "torch\nHalfStorage\n";
    case DType::kInt32: return "torch\nIntStorage\n";
    case DType::kUInt8: return "torch\nByteStorage\n";
    case DType::kInt8: return "torch\nCharStorage\n";
  }
  LOCKSTEP_CHECK(false, static_cast<int>(dtype));
  return {};
}

std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank(), 1);
  for (size_t axis = shape.rank(); axis-- > 1;) strides[axis - 1] = strides[axis] * std::max<int64_t>(1, shape[axis]);
  return strides;
}

/// Whether a pickle stands in an archive or, as before torch 1.6, in front of the storages.
enum class Container { kArchive, kPickles };

/// _rebuild_tensor_v2(('storage', class, key, 'cpu', elements[, view]) as persistent id, offset, size, stride,
/// requires_grad, OrderedDict())
void pickle_tensor(Pickler& pickler, const TensorType& type, size_t key, Container container) {
  pickler.global("torch._utils\n_rebuild_tensor_v2\n");
  pickler.op('(');  // MARK
  pickler.op('(');
  pickler.text("storage");
  pickler.global(storage_class(type.dtype));
  pickler.text(std::to_string(key));
  pickler.text("cpu");
  pickler.integer(type.shape.elements());
  if (container == Container::kPickles) pickler.op('N');  // NONE: not a part of another storage
  pickler.memoised('t');                                  // TUPLE
  pickler.op('Q');                                        // BINPERSID
  pickler.integer(0);
  pickler.integers(type.shape.dims());
  pickler.integers(row_major_strides(type.shape));
  pickler.op('\x89');  // NEWFALSE
  pickler.empty_ordered_dict();
  pickler.memoised('t');
  pickler.memoised('R');  // REDUCE
}

std::string pickled(const std::vector<StoredTensor>& tensors, Container container) {
  LOCKSTEP_CHECK(tensors.size() >= 2 && tensors.size() <= 1000, tensors.size());  // one SETITEMS
  Pickler pickler;
  pickler.empty_ordered_dict();
  pickler.op('(');  // MARK
  for (size_t i = 0; i < tensors.size(); ++i) {
    pickler.text(tensors[i].name);
    pickle_tensor(pickler, tensors[i].type, i, container);
  }
  pickler.op('u');        // SETITEMS
  pickler.memoised('}');  // EMPTY_DICT: the attributes of the OrderedDict
  pickler.text("_metadata");
  pickler.empty_ordered_dict();
  pickler.text("");
  pickler.memoised('}');
  pickler.text("version");
  pickler.integer(1);
  for (const char opcode : {'s', 's', 's', 'b'}) pickler.op(opcode);  // SETITEM, and BUILD
  return pickler.finish();
}

/// {'protocol_version': 1001, 'little_endian': True, 'type_sizes': {'short': 2, 'int': 4, 'long': 4}}
std::string pickled_machine() {
  Pickler pickler;
  pickler.memoised('}');
  pickler.op('(');
  pickler.text("protocol_version");
  pickler.integer(1001);
  pickler.text("little_endian");
  pickler.op('\x88');  // NEWTRUE
  pickler.text("type_sizes");
  pickler.memoised('}');
  pickler.op('(');
  for (const auto& [type, size] : {std::pair{"short", 2}, {"int", 4}, {"long", 4}}) {
    pickler.text(type);
    pickler.integer(size);
  }
  pickler.op('u');
  pickler.op('u');
  return pickler.finish();
}

}  // namespace

void write_torch_file(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors) {
  ZipArchive archive(path.stem().string());
  archive.add("data.pkl", pickled(tensors, Container::kArchive));
  archive.add(".format_version", "1");
  archive.add(".storage_alignment", "64");
  archive.add("byteorder", "little");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<std::byte>& bytes = tensors[i].bytes;
    archive.add("data/" + std::to_string(i), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  archive.add("version", "3\n");
  archive.add(".data/serialization_id", std::string(40, '0'));
  archive.write(path);
}

void write_old_torch_file(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors) {
  std::map<std::string, const StoredTensor*> by_key;  // in the order of torch: as texts
  for (size_t i = 0; i < tensors.size(); ++i) by_key[std::to_string(i)] = &tensors[i];
  Pickler magic, protocol, keys;
  magic.op('\x8a');  // LONG1
  for (const char byte : std::string("\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")) magic.op(byte);
  protocol.integer(1001);
  keys.memoised(']');  // EMPTY_LIST
  keys.op('(');
  for (const auto& [key, tensor] : by_key) keys.text(key);
  keys.op('e');  // APPENDS
  std::string all =
      magic.finish() + protocol.finish() + pickled_machine() + pickled(tensors, Container::kPickles) + keys.finish();
  for (const auto& [key, tensor] : by_key) {
    put(all, static_cast<uint64_t>(tensor->type.shape.elements()), 8);
    all.append(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
  }
  std::ofstream file(path, std::ios::binary);
  file << all;
  LOCKSTEP_CHECK(file.good(), path.string());
}

}  // namespace lockstep::model
