#include "runtime/checkpoint/unpickler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/written_torch_file.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Result<PickledTensors> unpickle(const std::string& bytes) {
  return unpickle_tensors(std::as_bytes(std::span(bytes)), "x.bin");
}

const pickle::Storage kStorage{"BFloat16Storage", "7", 12};
const std::string kTensor = pickle::tensor(kStorage, 2, {5, 2}, {2, 1});

void expect_refused(const std::string& bytes, ErrorKind kind, const std::string& words) {
  const auto result = unpickle(bytes);
  ASSERT_FALSE(result.has_value()) << words;
  EXPECT_EQ(result.error().kind, kind) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr(words));
  EXPECT_THAT(result.error().message, HasSubstr("x.bin"));
}

TEST(UnpickleTensors, FindsStorageShapeAndStridesOfEachTensor) {
  const auto tensors = unpickle(pickle::state_dict({{"a", kTensor}, {"b", kTensor}})).value();
  ASSERT_THAT(tensors, SizeIs(2));
  const PickledTensor& a = tensors.at("a");
  EXPECT_EQ(a.storage, "7");
  EXPECT_EQ(a.dtype, "BF16");
  EXPECT_EQ(a.storage_elements, 12);
  EXPECT_EQ(a.first, 2);
  EXPECT_THAT(a.shape, ElementsAre(5, 2));
  EXPECT_THAT(a.strides, ElementsAre(2, 1));
}

TEST(UnpickleTensors, LooksThroughParametersAndDropsPlainValues) {
  using namespace pickle;
  const std::string parameter =
      call(name("torch._utils", "_rebuild_parameter"), {kTensor, "\x88", call(kOrderedDict, {})});
  const auto tensors = unpickle(state_dict({{"parameter", parameter},
                                            {"none", "N"},
                                            {"real", "G" + std::string(8, '\x40')},
                                            {"list", "](" + number(1) + "\x88" + "e" + text("x") + "a"},
                                            {"dict", "}" + text("k") + number(-1) + "s"},
                                            {"size", call(name("torch", "Size"), {numbers({1, 2})})},
                                            {"pair", "K\x01M\x01\x02\x86"}}))
                           .value();
  ASSERT_THAT(tensors, SizeIs(1));
  EXPECT_TRUE(tensors.contains("parameter"));
}

TEST(UnpickleTensors, AcceptsTheAttributesOfAnOrderedDict) {
  using namespace pickle;
  const std::string metadata = "}" + text("_metadata") + call(kOrderedDict, {}) + "sb";
  EXPECT_THAT(unpickle(kProtocol + call(kOrderedDict, {}) + "(" + text("a") + kTensor + "u" + metadata + ".").value(),
              SizeIs(1));
}

TEST(UnpickleTensors, UnderstandsTheMemoAndTheOperationsOfLaterProtocols) {
  using namespace pickle;
  const std::string later = "\x80\x04\x95" + std::string(8, '\0') + "}\x94" + "\x8c\x01w\x94" + "\x8c\x0c" +
                            "torch._utils" + "\x8c\x12" + "_rebuild_tensor_v2" + "\x93\x94" +
                            tuple({storage(kStorage), number(0), numbers({}), numbers({})}) + "R" + "s";
  EXPECT_TRUE(unpickle(later + ".").value().at("w").shape.empty());
  const auto recalled = unpickle(kProtocol + "}q\x05" + text("w") + kTensor + "r\x01\x02\x03\x04" + "s" + text("v") +
                                 "j\x01\x02\x03\x04" + "s.");
  EXPECT_THAT(recalled.value(), SizeIs(2));
}

TEST(UnpickleTensors, RefusesEveryOtherNameAndCall) {
  using namespace pickle;
  const auto refused = [](const std::string& value, const std::string& words) {
    expect_refused(state_dict({{"a", value}}), ErrorKind::kUnsupported, words);
  };
  refused(call(name("os", "system"), {text("true")}), "found the name os.system");
  refused(call(name("builtins", "eval"), {text("1")}), "found the name builtins.eval");
  refused(call(name("torch", "load"), {text("x")}), "found the name torch.load");
  refused(call(name("torch.nn.modules.linear", "Linear"), {}), "torch.nn.modules.linear.Linear");
  refused(text("posix") + text("system") + "\x93" + tuple({text("true")}) + "R", "found the name posix.system");
  refused(call(name("torch", "FloatStorage"), {number(3)}), "a call of something that is not a function");
  refused(call(text("os.system"), {text("true")}), "a call of something that is not a function");
  refused(call(kOrderedDict, {numbers({1})}), "collections.OrderedDict with arguments");
  refused(name("collections", "OrderedDict") + ")\x81", "the pickle operation 0x81");
  refused("S'text'\n", "the pickle operation 0x53");
  refused(number(1) + "}b", "the state of an object");
  refused(tuple({text("module"), number(1)}) + "Q", "a persistent id");
}

TEST(UnpickleTensors, RefusesDamagedPickles) {
  using namespace pickle;
  const auto damaged = [](const std::string& bytes, const std::string& words) {
    expect_refused(bytes, ErrorKind::kInvalidArgument, words);
  };
  damaged("", "found 0 bytes");
  damaged("\x80\x09}.", "protocol 2 to 5");
  damaged(kProtocol + "N.", "not a dict");
  damaged(kProtocol + ".", "an empty stack");
  damaged(kProtocol + "}", "expected 1 more");
  damaged(kProtocol + "u.", "found no mark");
  damaged(kProtocol + "}(Nu.", "a key without a value");
  damaged(kProtocol + "(NNs.", "items without their list or dict");
  damaged(kProtocol + "h\x01.", "found memo 1");
  damaged(kProtocol + "X\xff\xff\xff\xffshort", "expected 4294967295 more");
  damaged(kProtocol + "\x8a\x09" + "123456789.", "a number of 9 bytes");
  damaged(kProtocol + "ctorch", "no end of a line");
  damaged(state_dict({{"a", tensor(kStorage, -1, {1}, {1})}}), "without storage and offset");
  damaged(state_dict({{"a", tensor(kStorage, 0, {-1}, {1})}}), "not a whole number");
  damaged(state_dict({{"a", tensor(kStorage, 0, {1, 1}, {1})}}), "too few or many strides");
  damaged(state_dict({{"a", tensor(kStorage, 0, std::vector<int64_t>(9, 1), {})}}), "a tuple of at most 8");
  damaged(state_dict({{std::string(2000, 'n'), kTensor}}), "a name of 2000 bytes");
}

TEST(UnpickleTensors, RefusesEveryPieceOfAPickle) {
  const std::string whole = pickle::state_dict({{"a", kTensor}});
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(unpickle(whole.substr(0, size)).has_value()) << size;
}

TEST(UnpickleTensors, IsNotDeceivedByAListThatHoldsItself) {
  EXPECT_THAT(unpickle(pickle::kProtocol + "}q\x01" + pickle::text("a") + "h\x01s.").value(), SizeIs(0));
}

}  // namespace
}  // namespace lockstep::checkpoint
