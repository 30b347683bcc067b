#include "quarry/dataset/step_manifests.h"

#include <algorithm>

#include "quarry/base/file.h"
#include "quarry/format/manifest.h"

namespace quarry {

using Kind = MetadataCache::Key::Kind;

Location StepManifest(const Location& root, std::uint64_t step) {
  return root / format::StepFolder(step) / "step.json";
}

std::uint64_t ParsingMemory(std::uint64_t bytes) {
  constexpr std::uint64_t kTimesText = 6;
  return kTimesText * bytes;
}

std::uint64_t MemoryOf(const OpenedStep& opened) {
  std::uint64_t bytes = MemoryOf(opened.step);
  if (!opened.root) return bytes;
  for (const format::StepSection& section : opened.root->sections)
    bytes += sizeof(section) + section.names.capacity() * sizeof(std::uint32_t);
  return bytes;
}

namespace {

using Fields = std::vector<FieldStepDescription>;
using File = std::shared_ptr<const StoredObject>;

Status DamagedStep(Status error, const Location& path) {
  return StatusOfPart(std::move(error), path, "; the step is damaged");
}

Status CheckStepOf(const Location& path, std::uint64_t found, std::uint64_t step) {
  if (found == step) return Status::Ok();
  return DataLoss("\"{}\" describes step {}; it was moved here", path, found);
}

std::string TextOf(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// @param stamp  gets that of the file; may be null
Result<std::string> OpenFront(const Location& path, File* file, Stamp* stamp) {
  QUARRY_ASSIGN_OR_RETURN(OpenedFile opened, path.OpenWith(FileEnd::kFront, format::kFrontBytes, stamp));
  QUARRY_RETURN_IF_ERROR(CheckFileSize(path.path, opened.object->size(), format::kManifestLimit));
  *file = std::move(opened.object);
  return TextOf(opened.bytes);
}

Result<OpenedStep> ReadOpened(const StoredObject& file, const std::string& front,
                              const DatasetDescription& dataset) {
  OpenedStep opened;
  if (format::IsInSections(front)) {
    QUARRY_ASSIGN_OR_RETURN(opened.root, format::ReadRoot(file, front, dataset));
    opened.step.step = opened.root->step;
    return opened;
  }
  QUARRY_ASSIGN_OR_RETURN(const std::string rest,
                          format::ReadTextAt(file, front.size(), file.size() - front.size()));
  QUARRY_ASSIGN_OR_RETURN(
      opened.step,
      format::DecodeStepManifest(front + rest, dataset).Annotate(fmt::format("\"{}\"", file.path())));
  return opened;
}

/// Reads the sections that may have a field: one, unless another has the digest of its name.
/// @param section_of  returns the fields of a section, by its number
template <typename SectionOf>
Result<std::shared_ptr<const FieldStepDescription>> FindInSections(const Location& path,
                                                                   const format::StepRoot& root,
                                                                   const std::string& field,
                                                                   const SectionOf& section_of) {
  std::shared_ptr<const FieldStepDescription> found;
  for (const std::size_t number : root.SectionsWith(field)) {
    QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const Fields> fields, section_of(number));
    const auto here = std::ranges::find(*fields, field, &FieldStepDescription::name);
    if (here == fields->end()) continue;
    if (found) return DataLoss("\"{}\": field \"{}\" appears twice; the file is damaged", path, field);
    found = {fields, &*here};
  }
  return found;
}

}  // namespace

Result<std::shared_ptr<const FieldStepDescription>> ReadFieldOfStep(const Location& root, std::uint64_t step,
                                                                    const std::string& field,
                                                                    const DatasetDescription& dataset) {
  const Location path = StepManifest(root, step);
  File file;
  QUARRY_ASSIGN_OR_RETURN(const std::string front, OpenFront(path, &file, nullptr));
  QUARRY_ASSIGN_OR_RETURN(OpenedStep read, ReadOpened(*file, front, dataset));
  const auto opened = std::make_shared<const OpenedStep>(std::move(read));
  if (!opened->root)
    return std::shared_ptr<const FieldStepDescription>(opened, opened->step.FindField(field));
  return FindInSections(
      path, *opened->root, field, [&](std::size_t number) -> Result<std::shared_ptr<const Fields>> {
        QUARRY_ASSIGN_OR_RETURN(Fields fields, format::ReadSection(*file, *opened->root, number, dataset));
        return std::make_shared<const Fields>(std::move(fields));
      });
}

MetadataCache::Key StepManifests::KeyOf(Kind kind, std::uint64_t step) const {
  MetadataCache::Key key;
  key.kind = kind;
  key.step = step;
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(step);
  if (known != known_.end()) key.subfile = known->second.replacements;
  return key;
}

/// A step that had to make room and is read again may have been replaced since.
void StepManifests::Remember(std::uint64_t step, const Stamp& stamp) const {
  const std::lock_guard lock(mutex_);
  const auto [known, first] = known_.try_emplace(step, Known{stamp});
  known->second.asked = Clock::now();
  if (!first && known->second.stamp != stamp) outdated_ = true;
}

void StepManifests::LookForReplacement(std::uint64_t step) const {
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(step);
    if (known == known_.end()) return;
    if (Clock::now() - known->second.asked < root_.storage->trust()) return;
  }
  const Result<Stamp> stamp = AnsweredStampOf(StepManifest(root_, step));
  if (stamp.ok()) Remember(step, *stamp);  // otherwise reading says why
}

/// A root that is older than the sections beside it is read again: they have a step.json that was replaced.
bool StepManifests::WasReplaced(std::uint64_t step) const {
  const Stamp stamp = StampOf(StepManifest(root_, step));
  const std::lock_guard lock(mutex_);
  Known& known = known_[step];
  if (known.stamp == stamp) return false;
  known.stamp = stamp;
  ++known.replacements;
  outdated_ = true;
  return true;
}

Result<std::shared_ptr<const FieldStepDescription>> StepManifests::Field(std::uint64_t step,
                                                                         const std::string& field) const {
  constexpr int kTries = 3;  // each but the first after a replacement
  for (int left = kTries - 1;; --left) {
    File file;
    QUARRY_ASSIGN_OR_RETURN(const auto opened, Open(step, &file));
    if (!opened->root) {
      return std::shared_ptr<const FieldStepDescription>(opened, opened->step.FindField(field));
    }
    auto found = Find(step, field, *opened, std::move(file));
    if (found.ok() || left == 0 || !WasReplaced(step)) return found;
  }
}

/// @param file  null: it is opened when a section has to be read
Result<std::shared_ptr<const FieldStepDescription>> StepManifests::Find(std::uint64_t step,
                                                                        const std::string& field,
                                                                        const OpenedStep& opened,
                                                                        File file) const {
  const Location path = StepManifest(root_, step);
  return FindInSections(path, *opened.root, field, [&](std::size_t number) {
    // By its contents: another step.json may have other sections under these numbers.
    MetadataCache::Key key;
    key.kind = Kind::kStepSection;
    key.step = step;
    key.block = opened.root->sections[number].checksum;
    const auto load = [&]() -> Result<Fields> {
      if (!file) {
        Result<File> reopened = path.Open();
        if (!reopened.ok()) return DamagedStep(std::move(reopened).status(), path);
        file = *std::move(reopened);
      }
      return format::ReadSection(*file, *opened.root, number, dataset_);
    };
    return cache_->Obtain<Fields>(
        key, [&] { return ParsingMemory(opened.root->sections[number].bytes); }, load);
  });
}

/// @param file  gets the file, if it had to be read
Result<std::shared_ptr<const OpenedStep>> StepManifests::Open(std::uint64_t step, File* file) const {
  const Location path = StepManifest(root_, step);
  Result<std::string> front = std::string();
  // The memory for the rest follows from the front.
  const auto bytes = [&]() -> std::uint64_t {
    Stamp stamp;
    front = OpenFront(path, file, &stamp);
    Remember(step, stamp);
    if (!front.ok()) return 0;
    if (!format::IsInSections(*front)) return ParsingMemory((*file)->size());
    const Result<std::uint64_t> root = format::RootBytes(*front);
    return root.ok() ? ParsingMemory(*root) : 0;
  };
  const auto load = [&]() -> Result<OpenedStep> {
    if (!front.ok()) return DamagedStep(front.status(), path);
    QUARRY_ASSIGN_OR_RETURN(OpenedStep opened, ReadOpened(**file, *front, dataset_));
    QUARRY_RETURN_IF_ERROR(CheckStepOf(path, opened.step.step, step));
    return opened;
  };
  return cache_->Obtain<OpenedStep>(KeyOf(Kind::kStep, step), bytes, load);
}

Result<std::shared_ptr<const StepDescription>> StepManifests::Whole(std::uint64_t step) const {
  File file;
  QUARRY_ASSIGN_OR_RETURN(const auto opened, Open(step, &file));
  if (!opened->root) return std::shared_ptr<const StepDescription>(opened, &opened->step);
  Result<std::string> front = std::string();
  const auto bytes = [&]() -> std::uint64_t {
    front = OpenFront(StepManifest(root_, step), &file, nullptr);
    return front.ok() ? ParsingMemory(file->size()) : 0;
  };
  return cache_->Obtain<StepDescription>(KeyOf(Kind::kWholeStep, step), bytes, [&] {
    std::string text;
    return Read(step, file, front, &text);
  });
}

Result<StepDescription> StepManifests::Load(std::uint64_t step, std::string* text) const {
  File file;
  const Result<std::string> front = OpenFront(StepManifest(root_, step), &file, nullptr);
  QUARRY_ASSIGN_OR_RETURN(const PatchStore::Memory memory,
                          cache_->Reserve(front.ok() ? ParsingMemory(file->size()) : 0));
  return Read(step, file, front, text);
}

/// @param front  of the file
Result<StepDescription> StepManifests::Read(std::uint64_t step, const File& file,
                                            const Result<std::string>& front, std::string* text) const {
  const Location path = StepManifest(root_, step);
  if (!front.ok()) return DamagedStep(front.status(), path);
  QUARRY_ASSIGN_OR_RETURN(const std::string rest,
                          format::ReadTextAt(*file, front->size(), file->size() - front->size()));
  *text = *front + rest;
  QUARRY_ASSIGN_OR_RETURN(StepDescription description,
                          format::DecodeStepManifest(*text, dataset_).Annotate(fmt::format("\"{}\"", path)));
  QUARRY_RETURN_IF_ERROR(CheckStepOf(path, description.step, step));
  return description;
}

}  // namespace quarry
