#include "quarry/format/manifest.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <cctype>
#include <memory>
#include <new>

#include "quarry/base/checksum.h"
#include "quarry/format/proto_convert.h"

namespace quarry::format {
namespace {

constexpr std::string_view kChecksumKey = "\"checksum\": \"";
constexpr std::size_t kChecksumDigits = 16;

/// Position of the sixteen digits of the file's own checksum; npos when they are absent.
std::size_t ChecksumPosition(const std::string& text) {
  const std::size_t key = text.rfind(kChecksumKey);
  if (key == std::string::npos) return std::string::npos;
  const std::size_t digits = key + kChecksumKey.size();
  return digits + kChecksumDigits <= text.size() ? digits : std::string::npos;
}

std::uint64_t TextChecksum(const std::string& text) { return Checksum(std::as_bytes(std::span(text))); }

/// A text that grows, and ends where memory does: Protocol Buffers' own stream throws then, and the writer to
/// it does not survive that.
class GrowingText final : public google::protobuf::io::ZeroCopyOutputStream {
 public:
  bool Next(void** data, int* size) override {
    try {
      return stream_.Next(data, size);
    } catch (const std::bad_alloc&) {
      complete_ = false;
      return false;
    }
  }
  void BackUp(int count) override { stream_.BackUp(count); }
  std::int64_t ByteCount() const override { return stream_.ByteCount(); }

  /// @errors throws std::bad_alloc: the text is not complete
  std::string Take() {
    if (!complete_) throw std::bad_alloc();
    return std::move(text_);
  }

 private:
  std::string text_;
  google::protobuf::io::StringOutputStream stream_{&text_};
  bool complete_ = true;
};

/// @returns false where it cannot be printed
bool Print(const google::protobuf::Message& message, GrowingText* text) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  const std::string bytes = message.SerializeAsString();
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  const std::string prefix = "type.googleapis.com";
  const std::unique_ptr<google::protobuf::util::TypeResolver> types(
      google::protobuf::util::NewTypeResolverForDescriptorPool(
          prefix, google::protobuf::DescriptorPool::generated_pool()));
  return google::protobuf::util::BinaryToJsonStream(
             types.get(), prefix + "/" + message.GetDescriptor()->full_name(), &input, text, options)
      .ok();
}

template <typename Message>
std::string ToText(Message message) {
  message.set_checksum(std::string(kChecksumDigits, '0'));
  GrowingText printed;
  // Printing a message that this program built cannot fail: every string in it is checked UTF-8 or made from
  // it.
  const bool is_printed = Print(message, &printed);
  std::string text = printed.Take();
  if (!is_printed) return {};
  text.replace(ChecksumPosition(text), kChecksumDigits, ChecksumText(TextChecksum(text)));
  return text;
}

template <typename Message>
Result<Message> FromText(std::string text) {
  const std::size_t position = ChecksumPosition(text);
  if (position == std::string::npos)
    return DataLoss("the checksum at its end is missing; the file is damaged");
  const std::string stored = text.substr(position, kChecksumDigits);
  text.replace(position, kChecksumDigits, kChecksumDigits, '0');
  const std::string computed = ChecksumText(TextChecksum(text));
  if (stored != computed)
    return DataLoss("checksum {} stored, {} computed; the file is damaged", stored, computed);
  Message message;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a newer minor version may write more than we understand
  const auto status = google::protobuf::util::JsonStringToMessage(text, &message, options);
  if (!status.ok()) return DataLoss("not a manifest: {}", std::string(status.message()));
  return message;
}

}  // namespace

std::string EncodeManifest(const DatasetDescription& dataset) { return ToText(ToProto(dataset)); }
std::string EncodeManifest(const StepDescription& step) { return ToText(ToProto(step)); }

Result<DatasetDescription> DecodeDatasetManifest(const std::string& text) {
  QUARRY_ASSIGN_OR_RETURN(const pb::DatasetManifest manifest, FromText<pb::DatasetManifest>(text));
  return FromProto(manifest);
}

Result<StepDescription> DecodeStepManifest(const std::string& text, const DatasetDescription& dataset) {
  QUARRY_ASSIGN_OR_RETURN(const pb::StepManifest manifest, FromText<pb::StepManifest>(text));
  return FromProto(manifest, dataset);
}

Status CheckFieldName(const std::string& name) {
  // A field's folder lies beside step.json.
  bool good = !name.empty() && name.size() <= kMaxFieldName && name[0] != '.' && !name.ends_with(".json");
  for (const char c : name)
    good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-');
  if (good) return Status::Ok();
  return InvalidArgument(
      "\"{}\" cannot be a field name; use 1 to {} letters, digits, \"_\", \".\" or \"-\", not starting with "
      "a dot or ending in .json",
      name, kMaxFieldName);
}

std::string StepFolder(std::uint64_t step) { return fmt::format("steps/{:06}", step); }
std::string SubfileName(std::size_t number) { return fmt::format("{:04}.qsf", number); }

}  // namespace quarry::format
