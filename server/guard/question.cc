#include "server/guard/question.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format.h>
#include <google/protobuf/wire_format_lite.h>

namespace quarry::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kMostParts = 4096;
/// Protobuf's own limit of nested messages.
constexpr int kMostLevels = 100;

/// Counts the parts of a message that take memory of their own, without keeping any. Returns false when the
/// bytes are no message; stops early at too many parts.
class PartCounter {
 public:
  explicit PartCounter(const std::string& bytes)
      : in_(reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<int>(bytes.size())) {}

  bool Count(const Descriptor* type, int level = 0) {
    while (parts_ <= kMostParts) {
      const std::uint32_t tag = in_.ReadTag();
      if (tag == 0) return in_.ConsumedEntireMessage();
      const FieldDescriptor* field = type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      if (!CountField(tag, field, level)) return false;
    }
    return true;
  }
  int parts() const { return parts_; }

 private:
  bool CountField(std::uint32_t tag, const FieldDescriptor* field, int level) {
    const bool has_length = WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    const bool is_number = field != nullptr && field->cpp_type() != FieldDescriptor::CPPTYPE_STRING &&
                           field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_number) return WireFormatLite::SkipField(&in_, tag);
    ++parts_;
    if (field == nullptr || !has_length || field->type() != FieldDescriptor::TYPE_MESSAGE)
      return WireFormatLite::SkipField(&in_, tag);
    int size = 0;
    if (level == kMostLevels || !in_.ReadVarintSizeAsInt(&size)) return false;
    const CodedInputStream::Limit outer = in_.PushLimit(size);
    if (!Count(field->message_type(), level + 1)) return false;
    if (parts_ <= kMostParts && in_.BytesUntilLimit() != 0) return false;
    in_.PopLimit(outer);
    return true;
  }

  CodedInputStream in_;
  int parts_ = 0;
};

}  // namespace

Status ParseQuestion(const std::string& bytes, google::protobuf::Message* question) {
  PartCounter counter(bytes);
  if (!counter.Count(question->GetDescriptor()))
    return InvalidArgument("the question is not a {}", question->GetTypeName());
  if (counter.parts() > kMostParts)
    return InvalidArgument("the question has more than {} strings and parts; ask for less at a time",
                           kMostParts);
  if (question->ParseFromString(bytes)) return Status::Ok();
  return InvalidArgument("the question is not a {}", question->GetTypeName());
}

}  // namespace quarry::server
