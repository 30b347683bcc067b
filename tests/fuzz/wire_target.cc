// Hostile messages: every kind of request to a server and of answer to a client. The first byte selects the
// kind.

#include "quarry/format/proto_convert.h"
#include "quarry/wire/convert.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/manifest_input.h"

namespace quarry::fuzz {
namespace {

namespace pb = ::quarry::v1;

/// A decoded message can be encoded again and then has the same meaning. Unknown fields are dropped.
/// @param from  message to value, @param to  value to message
template <typename Message, typename From, typename To>
void TestMessage(const void* data, int size, From from, To to) {
  Message message;
  if (!message.ParseFromArray(data, size)) return;
  const auto value = from(message);
  if (!value.ok()) {
    Require(!value.status().message().empty(), "an error says what is wrong");
    return;
  }
  const Message said = to(*value);
  const auto again = from(said);
  Require(again.ok(), "what was understood can be said again");
  Require(to(*again).SerializeAsString() == said.SerializeAsString(), "a message comes back");
}

template <typename T>
Result<T> Sure(T value) {
  return value;
}

void TestBytes(unsigned kind, const void* data, int size) {
  using wire::FromProto;
  using wire::ToProto;
  static const DatasetDescription dataset = ManifestDataset();
  const auto from_proto = [](const auto& message) { return FromProto(message); };
  const auto to_proto = [](const auto& value) { return ToProto(value); };
  const auto to_request = [](const auto& value) { return ToProto("run", value); };
  switch (kind % 8) {
    case 0:
      return TestMessage<pb::ReadQuery>(data, size, from_proto, to_request);
    case 1:
      return TestMessage<pb::GetStatisticsRequest>(data, size, from_proto, to_request);
    case 2:
      return TestMessage<pb::ReadPointsRequest>(data, size, from_proto, to_request);
    case 3:
      return TestMessage<pb::ReadHeader>(data, size, from_proto, to_proto);
    case 4:
      return TestMessage<pb::GetStatisticsResponse>(data, size, from_proto, to_proto);
    case 5:
      return TestMessage<pb::ReadPointsResponse>(
          data, size, [](const auto& message) { return Sure(FromProto(message)); }, to_proto);
    case 6:
      return TestMessage<pb::DatasetManifest>(
          data, size, [](const auto& message) { return format::FromProto(message); },
          [](const auto& value) { return format::ToProto(value); });
    default:
      return TestMessage<pb::StepManifest>(
          data, size, [](const auto& message) { return format::FromProto(message, dataset); },
          [](const auto& value) { return format::ToProto(value); });
  }
}

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) quarry::fuzz::TestBytes(data[0], data + 1, static_cast<int>(size - 1));
  return 0;
}
