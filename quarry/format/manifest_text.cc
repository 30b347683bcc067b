#include "quarry/format/manifest_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <algorithm>
#include <memory>
#include <new>

#include "quarry/base/checksum.h"
#include "quarry/base/utf8.h"

namespace quarry::format {
namespace {

constexpr std::string_view kChecksumKey = "\"checksum\": \"";
constexpr const char* kTypePrefix = "type.googleapis.com";

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

/// Where types of messages are looked up.
google::protobuf::util::TypeResolver* Resolver() {
  static auto& resolver = *google::protobuf::util::NewTypeResolverForDescriptorPool(
      kTypePrefix, google::protobuf::DescriptorPool::generated_pool());
  return &resolver;
}

std::string TypeOf(const google::protobuf::Message& message) {
  return fmt::format("{}/{}", kTypePrefix, message.GetDescriptor()->full_name());
}

/// Hands out a text in pieces of about 64 KiB, and no more once it is cancelled. A piece ends where a list or
/// a line goes on: the parser keeps a number that is cut and reads it anew with the next piece, so that very
/// long ones would take very long.
class CancellableText final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  CancellableText(std::string_view text, const Cancelled& cancelled) : text_(text), cancelled_(cancelled) {}

  bool Next(const void** data, int* size) override {
    constexpr std::size_t kPiece = 64 << 10;
    if (begin_ == text_.size() || (cancelled_ && cancelled_())) return false;
    std::size_t end = text_.find_first_of(",\n", std::min(begin_ + kPiece, text_.size()));
    end = end == std::string_view::npos ? text_.size() : end + 1;
    *data = text_.data() + begin_;
    *size = static_cast<int>(end - begin_);
    begin_ = end;
    return true;
  }
  // The parser takes whole pieces: the rest of the interface is for readers that do not.
  void BackUp(int count) override { begin_ -= static_cast<std::size_t>(count); }
  bool Skip(int count) override {
    begin_ += std::min(static_cast<std::size_t>(count), text_.size() - begin_);
    return begin_ < text_.size();
  }
  std::int64_t ByteCount() const override { return static_cast<std::int64_t>(begin_); }

 private:
  const std::string_view text_;
  const Cancelled& cancelled_;
  std::size_t begin_ = 0;
};

/// Gives negative zeros a form that the parser keeps: it takes "-0" as an integer, which has no sign. Numbers
/// end their line, and no string contains the end of one.
std::string WithNegativeZeros(std::string_view text) {
  constexpr std::string_view kZero = " -0";
  std::string kept;
  for (std::size_t at = text.find(kZero); at != std::string_view::npos; at = text.find(kZero)) {
    const std::string_view rest = text.substr(at + kZero.size());
    kept += text.substr(0, at + kZero.size());
    if (rest.starts_with('\n') || rest.starts_with(",\n")) kept += ".0";
    text = rest;
  }
  return kept.append(text);
}

}  // namespace

std::size_t ChecksumPosition(std::string_view text) {
  const std::size_t key = text.rfind(kChecksumKey);
  if (key == std::string_view::npos) return std::string_view::npos;
  const std::size_t digits = key + kChecksumKey.size();
  return digits + kChecksumDigits <= text.size() ? digits : std::string_view::npos;
}

std::string OwnChecksum(std::string_view text) {
  return ChecksumText(Checksum(std::as_bytes(std::span<const char>(text))));
}

std::string PrintText(const google::protobuf::Message& message, TextForm form) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = form == TextForm::kLines;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  const std::string bytes = message.SerializeAsString();
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  GrowingText text;
  const auto status =
      google::protobuf::util::BinaryToJsonStream(Resolver(), TypeOf(message), &input, &text, options);
  std::string printed = text.Take();
  return status.ok() ? printed : std::string();  // it cannot fail, see above
}

Status ParseText(std::string_view text, const Cancelled& cancelled, google::protobuf::Message* message) {
  const std::string kept = WithNegativeZeros(text);
  // Beyond bytes that are not, the parser would keep all pieces and look at them anew with each.
  if (!IsUtf8(text)) return DataLoss("not a manifest: not UTF-8 text");
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a newer minor version may write more than we understand
  CancellableText input(kept, cancelled);
  GrowingText bytes;
  const auto status =
      google::protobuf::util::JsonToBinaryStream(Resolver(), TypeOf(*message), &input, &bytes, options);
  if (cancelled && cancelled()) return {StatusCode::kCancelled, "reading the manifest was cancelled"};
  const std::string parsed = bytes.Take();
  if (!status.ok()) return DataLoss("not a manifest: {}", std::string(status.message()));
  if (!message->ParseFromString(parsed)) return DataLoss("not a manifest: its message cannot be read");
  return Status::Ok();
}

Status CheckOwnChecksum(std::string text) {
  const std::size_t position = ChecksumPosition(text);
  if (position == std::string::npos)
    return DataLoss("the checksum at its end is missing; the file is damaged");
  const std::string stored = text.substr(position, kChecksumDigits);
  text.replace(position, kChecksumDigits, kChecksumDigits, '0');
  const std::string computed = OwnChecksum(text);
  if (stored == computed) return Status::Ok();
  return DataLoss("checksum {} stored, {} computed; the file is damaged", stored, computed);
}

}  // namespace quarry::format
