#include "quarry/format/manifest.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <new>
#include <string_view>

#include "quarry/base/checksum.h"
#include "quarry/base/numbers.h"
#include "quarry/base/utf8.h"
#include "quarry/format/proto_convert.h"
#include "quarry/format/subfile.h"

namespace quarry::format {
namespace {

constexpr std::string_view kChecksumKey = "\"checksum\": \"";
constexpr std::size_t kChecksumDigits = 16;
constexpr const char* kTypePrefix = "type.googleapis.com";

/// Position of the sixteen digits of the file's own checksum; npos when they are absent.
std::size_t ChecksumPosition(std::string_view text) {
  const std::size_t key = text.rfind(kChecksumKey);
  if (key == std::string_view::npos) return std::string_view::npos;
  const std::size_t digits = key + kChecksumKey.size();
  return digits + kChecksumDigits <= text.size() ? digits : std::string_view::npos;
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

/// Where types of messages are looked up.
std::unique_ptr<google::protobuf::util::TypeResolver> NewResolver() {
  return std::unique_ptr<google::protobuf::util::TypeResolver>(
      google::protobuf::util::NewTypeResolverForDescriptorPool(
          kTypePrefix, google::protobuf::DescriptorPool::generated_pool()));
}

std::string TypeOf(const google::protobuf::Message& message) {
  return fmt::format("{}/{}", kTypePrefix, message.GetDescriptor()->full_name());
}

/// @returns false where it cannot be printed
bool Print(const google::protobuf::Message& message, GrowingText* text) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  const std::string bytes = message.SerializeAsString();
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  return google::protobuf::util::BinaryToJsonStream(NewResolver().get(), TypeOf(message), &input, text,
                                                    options)
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

Status Parse(std::string_view text, const Cancelled& cancelled, google::protobuf::Message* message) {
  // Beyond bytes that are not, the parser would keep all pieces and look at them anew with each.
  if (!IsUtf8(text)) return DataLoss("not a manifest: not UTF-8 text");
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a newer minor version may write more than we understand
  CancellableText input(text, cancelled);
  GrowingText bytes;
  const auto status = google::protobuf::util::JsonToBinaryStream(NewResolver().get(), TypeOf(*message),
                                                                 &input, &bytes, options);
  if (cancelled && cancelled()) return {StatusCode::kCancelled, "reading the manifest was cancelled"};
  const std::string parsed = bytes.Take();
  if (!status.ok()) return DataLoss("not a manifest: {}", std::string(status.message()));
  if (!message->ParseFromString(parsed)) return DataLoss("not a manifest: its message cannot be read");
  return Status::Ok();
}

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

/// Checks a manifest's own checksum, computed with zeros in its place.
/// @returns the text for the parser
Result<std::string> CheckText(std::string text) {
  const std::size_t position = ChecksumPosition(text);
  if (position == std::string::npos)
    return DataLoss("the checksum at its end is missing; the file is damaged");
  const std::string stored = text.substr(position, kChecksumDigits);
  text.replace(position, kChecksumDigits, kChecksumDigits, '0');
  const std::string computed = ChecksumText(TextChecksum(text));
  if (stored != computed)
    return DataLoss("checksum {} stored, {} computed; the file is damaged", stored, computed);
  return WithNegativeZeros(text);
}

/// Puts the grid of a dataset.json from before there were several into the list.
Status TakeOneGrid(std::string_view text, const Cancelled& cancelled, pb::DatasetManifest* manifest) {
  pb::OneGrid one;
  QUARRY_RETURN_IF_ERROR(Parse(text, cancelled, &one));
  if (!one.has_grid()) return DataLoss("there is no grid");
  *manifest->add_grids() = GridOf(std::move(one));
  return Status::Ok();
}

}  // namespace

std::string EncodeManifest(const DatasetDescription& dataset) {
  pb::DatasetManifest manifest = ToProto(dataset);
  if (dataset.has_packs) manifest.set_format_version(kManifestVersionWithPacks);
  return ToText(std::move(manifest));
}
std::string EncodeManifest(const StepDescription& step) { return ToText(ToProto(step)); }

Result<DatasetDescription> DecodeDatasetManifest(const std::string& text, const Cancelled& cancelled) {
  QUARRY_ASSIGN_OR_RETURN(const std::string checked, CheckText(text));
  pb::DatasetManifest manifest;
  QUARRY_RETURN_IF_ERROR(Parse(checked, cancelled, &manifest));
  if (manifest.grids().empty()) QUARRY_RETURN_IF_ERROR(TakeOneGrid(checked, cancelled, &manifest));
  const bool has_packs = manifest.format_version() == kManifestVersionWithPacks;
  if (has_packs) manifest.set_format_version(kManifestVersion);
  QUARRY_ASSIGN_OR_RETURN(DatasetDescription dataset, FromProto(manifest));
  dataset.has_packs = has_packs;
  return dataset;
}

Result<StepDescription> DecodeStepManifest(const std::string& text, const DatasetDescription& dataset) {
  QUARRY_ASSIGN_OR_RETURN(const std::string checked, CheckText(text));
  pb::StepManifest manifest;
  QUARRY_RETURN_IF_ERROR(Parse(checked, {}, &manifest));
  return FromProto(manifest, dataset);
}

std::optional<std::uint64_t> StoredChecksum(std::string_view text) {
  const std::size_t position = ChecksumPosition(text);
  if (position == std::string_view::npos) return std::nullopt;
  const Result<std::uint64_t> stored = ParseChecksum(text.substr(position, kChecksumDigits));
  return stored.ok() ? std::optional(*stored) : std::nullopt;
}

Status CheckManifestSize(const DatasetDescription& dataset) {
  constexpr std::uint64_t kBesides = sizeof("      ,");  // each has a line of its own
  std::uint64_t bytes = 0;
  for (const GridDescription& grid : dataset.grids) {
    for (const std::vector<double>& axis : grid.coordinates) {
      for (const double position : axis) bytes += fmt::formatted_size("{}", position) + kBesides;
    }
  }
  if (bytes <= kManifestLimit) return Status::Ok();
  return InvalidArgument(
      "the positions along the axes would take {} bytes of dataset.json, of which readers accept at most {}; "
      "cut the grid into several datasets, or give an origin and a spacing instead",
      bytes, kManifestLimit);
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
std::optional<std::uint64_t> StepOfFolder(const std::string& name) {
  std::uint64_t step = 0;
  // Zeros in front only up to six digits.
  constexpr std::size_t kDigits = 6;
  const bool well_formed = name.size() == kDigits || (name.size() > kDigits && name.front() != '0');
  return well_formed && ReadNumber(name, &step) ? std::optional(step) : std::nullopt;
}

std::string SubfileName(std::size_t number) { return fmt::format("{:04}.qsf", number); }

}  // namespace quarry::format
