#include "quarry/index/step_state.h"

#include <algorithm>

#include "quarry/base/checksum.h"
#include "quarry/dataset/step_manifests.h"
#include "quarry/format/manifest.h"
#include "quarry/format/step_sections.h"
#include "quarry/index/seal.h"

namespace quarry::index {
namespace {

Status DamagedStep(const Status& error, const Location& manifest) {
  return StatusOfPart(error, manifest, "; the step is damaged");
}

}  // namespace

Result<std::uint64_t> MarkOfStep(const Location& dataset, std::uint64_t step) {
  const Location path = StepManifest(dataset, step);
  const Result<ObjectInfo> info = path.Stat();
  if (!info.ok()) return DamagedStep(info.status(), path);
  const std::string text = info->identity + info->stamp.text;
  return Checksum(std::as_bytes(std::span(text)));
}

std::uint64_t MarksOf(std::span<const MarkedStep> steps) {
  StreamingChecksum checksum;
  for (const MarkedStep& one : steps) {
    Bytes bytes;
    PutLittleEndian(&bytes, one.step);
    PutLittleEndian(&bytes, one.mark);
    checksum.Update(bytes);
  }
  return checksum.Finish();
}

Result<std::uint64_t> StepManifestChecksum(const Location& dataset, std::uint64_t step) {
  const Location path = StepManifest(dataset, step);
  const Result<std::shared_ptr<const StoredObject>> file = path.Open();
  if (!file.ok()) return DamagedStep(file.status(), path);
  QUARRY_ASSIGN_OR_RETURN(const std::string front,
                          format::ReadTextAt(**file, 0, std::min((*file)->size(), format::kFrontBytes)));
  if (format::IsInSections(front)) {
    QUARRY_ASSIGN_OR_RETURN(const std::string root, format::ReadRootText(**file, front));
    return Checksum(std::as_bytes(std::span(root)));
  }
  StreamingChecksum checksum;  // not read whole: no budget counts it
  QUARRY_RETURN_IF_ERROR(ForEachChunk(**file, [&](ByteSpan chunk) {
    checksum.Update(chunk);
    return Status::Ok();
  }));
  return checksum.Finish();
}

Bytes StepRecord::Encode() const {
  Bytes value;
  PutLittleEndian(&value, checksum);
  PutLittleEndian(&value, mark);
  for (const std::uint64_t mask : masks) PutLittleEndian(&value, mask);
  return value;
}

Result<StepRecord> StepRecord::Decode(ByteSpan value) {
  constexpr std::size_t kNumber = sizeof(std::uint64_t);
  if (value.size() < 2 * kNumber || value.size() % kNumber != 0)
    return DataLoss("a step has a record of {} bytes", value.size());
  StepRecord record;
  record.checksum = GetLittleEndian<std::uint64_t>(value.data());
  record.mark = GetLittleEndian<std::uint64_t>(value.data() + kNumber);
  for (std::size_t at = 2 * kNumber; at < value.size(); at += kNumber)
    record.masks.push_back(GetLittleEndian<std::uint64_t>(value.data() + at));
  return record;
}

}  // namespace quarry::index
