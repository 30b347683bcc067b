#include "quarry/format/step_sections.h"

#include <algorithm>
#include <charconv>

#include "quarry/base/checked_math.h"
#include "quarry/base/checksum.h"
#include "quarry/format/invariants.h"
#include "quarry/format/manifest_text.h"
#include "quarry/format/proto_convert.h"

namespace quarry::format {
namespace {

// A root begins so; ten digits, and sixteen, are its bytes and its checksum.
constexpr std::string_view kStart = "{\n \"sections\": {\"root_bytes\":\"";
constexpr std::size_t kSizeDigits = 10;
constexpr std::string_view kBeforeChecksum = "\",\"root_checksum\":\"";
constexpr std::size_t kChecksumAt = kStart.size() + kSizeDigits + kBeforeChecksum.size();

// The end of a root, the text between two sections, and the text behind the last one.
constexpr std::string_view kFields = "\"fields\": [\n";
constexpr std::string_view kBetween = ",\n";
constexpr std::string_view kFieldsEnd = "\n ],\n \"checksum\": \"";
constexpr std::uint64_t kLeastBehind = kFieldsEnd.size() + kChecksumDigits + sizeof("\"\n}");

// Each field of the list begins and ends so, and nothing in it does.
constexpr std::string_view kFieldEnd = "\n  }";

constexpr std::size_t kNameDigits = 8;

std::string NameText(std::uint32_t digest) { return fmt::format("{:08x}", digest); }

Result<std::vector<std::uint32_t>> DecodeNames(std::string_view text) {
  std::vector<std::uint32_t> names;
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.empty() || text.size() % kNameDigits != 0 || !std::ranges::all_of(text, is_digit))
    return DataLoss("the names of a section are not eight hexadecimal digits for each field");
  for (std::size_t at = 0; at < text.size(); at += kNameDigits) {
    std::uint32_t digest = 0;
    std::from_chars(text.data() + at, text.data() + at + kNameDigits, digest, 16);
    names.push_back(digest);
  }
  return names;
}

/// Places the sections one after the other, from the end of the root on.
Status Place(const pb::StepSections& list, std::uint64_t root_bytes, std::uint64_t file_size,
             std::vector<StepSection>* sections) {
  const Status wrong = DataLoss("the sections do not lie in the file");
  std::uint64_t end = root_bytes;
  std::size_t fields = 0;
  for (const pb::StepSection& described : list.list()) {
    StepSection section;
    const std::uint64_t between = sections->empty() ? 0 : kBetween.size();
    if (!CheckedAdd(end, between, &section.offset)) return wrong;
    section.bytes = described.bytes();
    if (section.bytes == 0 || !CheckedAdd(section.offset, section.bytes, &end) || end > file_size)
      return wrong;
    QUARRY_ASSIGN_OR_RETURN(section.checksum, ParseChecksum(described.checksum()));
    QUARRY_ASSIGN_OR_RETURN(section.names, DecodeNames(described.names()));
    fields += section.names.size();
    if (fields > kMaxFields) return DataLoss("there are more than {} fields", kMaxFields);
    sections->push_back(std::move(section));
  }
  return !sections->empty() && file_size - end >= kLeastBehind ? Status::Ok() : wrong;
}

/// Checks what lies between the sections of a whole file, and its own checksum.
Status CheckBetween(const std::string& text, const StepRoot& root) {
  const std::string_view all = text;
  bool good = all.substr(root.end()).starts_with(kFieldsEnd);
  for (std::size_t s = 1; s < root.sections.size(); ++s)
    good = good && all.substr(root.sections[s].offset - kBetween.size()).starts_with(kBetween);
  if (!good) return DataLoss("the text between its sections is not that of a step; the file is damaged");
  return CheckOwnChecksum(text);
}

std::string NameOf(const StepRoot& root, std::size_t number) {
  const StepSection& section = root.sections[number];
  return fmt::format("section {} of {} (bytes {}..{})", number, root.sections.size(), section.offset,
                     section.offset + section.bytes);
}

/// A step without fields.
pb::StepManifest ManifestOf(const StepRoot& root) {
  pb::StepManifest manifest;
  manifest.set_format_version(root.version);
  manifest.set_step(root.step);
  return manifest;
}

/// Adds the fields of a section.
Status AddSection(const StepRoot& root, std::size_t number, std::string_view text,
                  pb::StepManifest* manifest) {
  const StepSection& section = root.sections[number];
  const auto add = [&]() -> Status {
    const std::uint64_t computed = Checksum(std::as_bytes(std::span<const char>(text)));
    if (computed != section.checksum)
      return DataLoss("checksum {} stored, {} computed; the file is damaged", ChecksumText(section.checksum),
                      ChecksumText(computed));
    pb::StepManifest parsed;
    QUARRY_RETURN_IF_ERROR(ParseText(fmt::format("{{{}{}\n]}}", kFields, text), {}, &parsed));
    const auto digest = [](const pb::FieldStep& field) { return NameDigest(field.name()); };
    if (!std::ranges::equal(parsed.fields(), section.names, {}, digest))
      return DataLoss("its fields are others than those that the root names");
    for (pb::FieldStep& field : *parsed.mutable_fields()) *manifest->add_fields() = std::move(field);
    return Status::Ok();
  };
  return add().Annotate(NameOf(root, number));
}

/// Ends of the fields in the text of a step in one piece.
std::vector<std::size_t> FieldEnds(std::string_view text, std::size_t begin) {
  std::vector<std::size_t> ends;
  for (std::size_t at = text.find(kFieldEnd, begin); at != std::string_view::npos;
       at = text.find(kFieldEnd, at + 1))
    ends.push_back(at + kFieldEnd.size());
  return ends;
}

}  // namespace

std::uint32_t NameDigest(std::string_view field) {
  return static_cast<std::uint32_t>(Checksum(std::as_bytes(std::span<const char>(field))));
}

std::vector<std::size_t> StepRoot::SectionsWith(std::string_view field) const {
  const std::uint32_t digest = NameDigest(field);
  std::vector<std::size_t> found;
  for (std::size_t s = 0; s < sections.size(); ++s)
    if (std::ranges::count(sections[s].names, digest) > 0) found.push_back(s);
  return found;
}

bool IsInSections(std::string_view front) { return front.starts_with(kStart); }

Result<std::uint64_t> RootBytes(std::string_view front) {
  const std::string_view digits = front.substr(std::min(kStart.size(), front.size())).substr(0, kSizeDigits);
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  if (digits.size() == kSizeDigits && error == std::errc() && end == digits.data() + digits.size() &&
      bytes <= kMaxRootBytes)
    return bytes;
  return DataLoss("the root of its sections has \"{}\" bytes; the maximum is {}", digits, kMaxRootBytes);
}

Result<StepRoot> DecodeRoot(std::string_view root, std::uint64_t file_size,
                            const DatasetDescription& dataset) {
  const auto decode = [&]() -> Result<StepRoot> {
    std::string text(root);
    if (!IsInSections(text) || text.size() < kChecksumAt + kChecksumDigits || !text.ends_with(kFields))
      return DataLoss("it does not end where the fields begin");
    const std::string stored = text.substr(kChecksumAt, kChecksumDigits);
    text.replace(kChecksumAt, kChecksumDigits, kChecksumDigits, '0');
    if (const std::string computed = OwnChecksum(text); stored != computed)
      return DataLoss("checksum {} stored, {} computed; the file is damaged", stored, computed);
    pb::StepManifest manifest;
    QUARRY_RETURN_IF_ERROR(ParseText(text + "]}", {}, &manifest));
    QUARRY_ASSIGN_OR_RETURN(const StepDescription step, FromProto(manifest, dataset));
    StepRoot decoded{manifest.format_version(), step.step, {}};
    QUARRY_RETURN_IF_ERROR(Place(manifest.sections(), root.size(), file_size, &decoded.sections));
    return decoded;
  };
  return decode().Annotate("the root of its sections");
}

Result<std::vector<FieldStepDescription>> DecodeSection(const StepRoot& root, std::size_t number,
                                                        std::string_view text,
                                                        const DatasetDescription& dataset) {
  pb::StepManifest manifest = ManifestOf(root);
  QUARRY_RETURN_IF_ERROR(AddSection(root, number, text, &manifest));
  Result<StepDescription> step = FromProto(manifest, dataset);
  if (!step.ok()) return std::move(step).status().Annotate(NameOf(root, number));
  return std::move(step->fields);
}

Result<StepDescription> DecodeSections(const std::string& text, const DatasetDescription& dataset) {
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t bytes, RootBytes(text));
  const std::string_view all = text;
  QUARRY_ASSIGN_OR_RETURN(const StepRoot root, DecodeRoot(all.substr(0, bytes), text.size(), dataset));
  pb::StepManifest manifest = ManifestOf(root);
  for (std::size_t s = 0; s < root.sections.size(); ++s) {
    const StepSection& section = root.sections[s];
    QUARRY_RETURN_IF_ERROR(AddSection(root, s, all.substr(section.offset, section.bytes), &manifest));
  }
  QUARRY_RETURN_IF_ERROR(CheckBetween(text, root));
  pb::StepManifest rest;
  QUARRY_RETURN_IF_ERROR(
      ParseText(fmt::format("{}{}", all.substr(0, bytes), all.substr(root.end())), {}, &rest));
  if (rest.has_time()) manifest.set_time(rest.time());
  return FromProto(manifest, dataset);
}

std::string WithSections(std::string whole, const StepDescription& step, const SectionLimits& limits) {
  const std::size_t begin = whole.find(kFields) + kFields.size();
  const std::vector<std::size_t> ends = FieldEnds(whole, begin);
  if (step.fields.empty() || ends.size() != step.fields.size()) return whole;  // no printer writes such a one
  pb::StepSections list;
  list.set_root_bytes(std::string(kSizeDigits, '0'));
  list.set_root_checksum(std::string(kChecksumDigits, '0'));
  std::size_t from = begin;
  for (std::size_t f = 0; f < ends.size();) {
    pb::StepSection* const section = list.add_list();
    std::size_t end = ends[f];
    do {
      end = ends[f];
      section->mutable_names()->append(NameText(NameDigest(step.fields[f++].name)));
    } while (f < ends.size() && ends[f] - from <= limits.section);
    const std::string_view bytes = std::string_view(whole).substr(from, end - from);
    section->set_bytes(bytes.size());
    section->set_checksum(OwnChecksum(bytes));
    from = end + kBetween.size();
  }
  // The same text with the list at its front.
  std::string root = fmt::format("{{\n \"sections\": {},{}", PrintText(list, TextForm::kOneLine),
                                 std::string_view(whole).substr(1, begin - 1));
  root.replace(kStart.size(), kSizeDigits, fmt::format("{:010}", root.size()));
  root.replace(kChecksumAt, kChecksumDigits, OwnChecksum(root));
  std::string text = std::move(root);
  text += std::string_view(whole).substr(begin);
  const std::size_t own = ChecksumPosition(text);
  text.replace(own, kChecksumDigits, kChecksumDigits, '0');
  text.replace(own, kChecksumDigits, OwnChecksum(text));
  return text;
}

Result<std::string> ReadTextAt(const StoredObject& file, std::uint64_t offset, std::uint64_t bytes) {
  std::string text(bytes, '\0');
  if (bytes > 0) QUARRY_RETURN_IF_ERROR(file.ReadAt(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<std::string> ReadRootText(const StoredObject& file, std::string_view front) {
  Result<std::uint64_t> bytes = RootBytes(front);
  if (!bytes.ok()) return std::move(bytes).status().Annotate(fmt::format("\"{}\"", file.path()));
  std::string root(front.substr(0, std::min<std::uint64_t>(*bytes, front.size())));
  if (*bytes > file.size())
    return DataLoss("\"{}\": the root of its sections has {} bytes, the file {}; it is damaged", file.path(),
                    *bytes, file.size());
  QUARRY_ASSIGN_OR_RETURN(const std::string rest, ReadTextAt(file, root.size(), *bytes - root.size()));
  return root + rest;
}

Result<StepRoot> ReadRoot(const StoredObject& file, std::string_view front,
                          const DatasetDescription& dataset) {
  QUARRY_ASSIGN_OR_RETURN(const std::string root, ReadRootText(file, front));
  return DecodeRoot(root, file.size(), dataset).Annotate(fmt::format("\"{}\"", file.path()));
}

Result<std::vector<FieldStepDescription>> ReadSection(const StoredObject& file, const StepRoot& root,
                                                      std::size_t number, const DatasetDescription& dataset) {
  const StepSection& section = root.sections[number];
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ReadTextAt(file, section.offset, section.bytes));
  return DecodeSection(root, number, text, dataset).Annotate(fmt::format("\"{}\"", file.path()));
}

}  // namespace quarry::format
