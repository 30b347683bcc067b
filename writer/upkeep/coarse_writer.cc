#include "writer/upkeep/coarse_writer.h"

#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/format/subfile_table.h"
#include "quarry/storage/location.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {

namespace {

/// A subfile of the step or of one of its masks.
struct Source {
  std::string name;  ///< its path below the dataset
  Location path;
  std::shared_ptr<const StoredObject> file;
  format::SubfileHeader header;
  format::SubfileFooter footer;
  format::TableIndex root;
};

Result<Bytes> ReadRange(const StoredObject& file, std::uint64_t offset, std::uint64_t size) {
  Bytes bytes(size);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(offset, bytes));
  return bytes;
}

/// The files of a step, ascending by their paths below the dataset.
std::vector<Source> SourcesOf(const StepFiles& files, const StepDescription& step) {
  std::vector<Source> sources;
  std::set<std::uint64_t> masks;
  const auto add = [&](const std::string& folder, const Location& path,
                       const std::vector<SubfileDescription>& subfiles) {
    for (std::size_t s = 0; s < subfiles.size(); ++s) {
      const std::string name = format::SubfileName(s);
      sources.push_back({folder + "/" + name, path / name, nullptr, {}, {}, format::TableIndex()});
    }
  };
  for (const FieldStepDescription& field : step.fields) {
    add(format::StepFolder(step.step) + "/" + field.name, files.folder / field.name, field.subfiles);
    if (!field.mask || !masks.insert(field.mask->name).second) continue;
    const std::string mask = format::MaskFolder(field.mask->name);
    add(mask, files.dataset / mask, field.mask->subfiles);
  }
  std::ranges::sort(sources, {}, &Source::name);
  return sources;
}

/// Opens the files and reads their footers. @return [bytes] of all tables
Result<std::uint64_t> OpenFooters(std::vector<Source>* sources) {
  std::uint64_t tables = 0;
  for (Source& source : *sources) {
    QUARRY_ASSIGN_OR_RETURN(source.file, source.path.Open());
    const std::uint64_t size = source.file->size();
    const std::uint64_t footer = std::min<std::uint64_t>(size, format::SubfileFooter::kEncodedSize);
    QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, ReadRange(*source.file, size - footer, footer));
    QUARRY_ASSIGN_OR_RETURN(
        source.footer, format::SubfileFooter::DecodeFrom(bytes).Annotate(fmt::format("\"{}\"", source.path)));
    tables += size - std::min(size, source.footer.table_offset);
  }
  return tables;
}

std::uint64_t FrontsOf(const std::vector<Source>& sources, std::size_t levels) {
  std::uint64_t bytes = 0;
  for (const Source& source : sources)
    bytes += format::CoarseFront(source.header, source.footer, source.root, levels);
  return bytes;
}

/// As many levels as all fields together have room for.
std::size_t LevelsOf(const std::vector<Source>& sources, std::uint64_t room) {
  std::size_t levels = 0;
  while (levels < format::kMaxLevels && FrontsOf(sources, levels + 1) <= room) ++levels;
  return levels;
}

bool MayHaveOne(const DatasetDescription& dataset, const StepDescription& step,
                const std::vector<Source>& sources) {
  std::uint64_t bytes = 0;
  for (const FieldStepDescription& field : step.fields) bytes += field.stored_bytes;
  const bool by_level = dataset.order != format::PayloadOrder::kPatch;
  return by_level && bytes >= format::kLeastCoarseStep && sources.size() <= format::kMaxCoarseFiles &&
         step.FindField(std::string(format::kCoarseFile)) == nullptr;
}

}  // namespace

Result<Bytes> CoarseObjectOf(const StepFiles& files, const DatasetDescription& dataset,
                             const StepDescription& step, std::uint64_t room) {
  std::vector<Source> sources = SourcesOf(files, step);
  if (!MayHaveOne(dataset, step, sources)) return Bytes();
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t tables, OpenFooters(&sources));
  if (tables > room) return Bytes();
  room -= tables;
  for (Source& source : sources) {
    QUARRY_ASSIGN_OR_RETURN(format::SubfileTable table, format::ReadSubfileTable(*source.file));
    if (table.header.version < format::kMajorVersion) return Bytes();
    source.header = std::move(table.header);
    source.root = std::move(table.root);
  }
  if (FrontsOf(sources, 0) > room) return Bytes();
  const std::size_t levels = LevelsOf(sources, room);
  std::vector<format::CoarseFile> parts;
  std::vector<Bytes> bytes;
  for (const Source& source : sources) {
    const std::uint64_t size = source.file->size();
    const std::uint64_t front = format::CoarseFront(source.header, source.footer, source.root, levels);
    const std::uint64_t back = size - source.footer.table_offset;
    QUARRY_ASSIGN_OR_RETURN(bytes.emplace_back(), ReadRange(*source.file, 0, front));
    QUARRY_ASSIGN_OR_RETURN(const Bytes table, ReadRange(*source.file, size - back, back));
    bytes.back().insert(bytes.back().end(), table.begin(), table.end());
    parts.push_back({source.name, size, source.footer.table_checksum, front, back});
  }
  return format::EncodeCoarseObject(parts, bytes);
}

namespace {

Result<bool> Write(const StepFiles& files, const DatasetDescription& dataset, const StepDescription& step,
                   const WritableStorage& storage, bool* changed) {
  const Location path = files.folder / format::kCoarseFile;
  if (step.FindField(std::string(format::kCoarseFile)) != nullptr) return false;
  Result<Bytes> bytes = CoarseObjectOf(files, dataset, step);
  const Result<Bytes> there = path.ReadWhole(format::kCoarseLimit);
  if (!bytes.ok() || bytes->empty()) {
    *changed = there.status().code() != StatusCode::kNotFound;
    if (*changed) QUARRY_RETURN_IF_ERROR(storage.Remove(path.path));
    QUARRY_RETURN_IF_ERROR(bytes.status());
    return false;
  }
  *changed = !there.ok() || *there != *bytes;
  if (!*changed) return true;
  QUARRY_RETURN_IF_ERROR(storage.Put(path.path, *bytes, PutCondition::Always()));
  QUARRY_RETURN_IF_ERROR(storage.SyncFolder(files.folder.path));
  return true;
}

}  // namespace

Result<bool> WriteCoarseObject(const StepFiles& files, const DatasetDescription& dataset,
                               const StepDescription& step, const WritableStorage& storage, bool* changed) {
  bool ignored = false;
  try {
    return Write(files, dataset, step, storage, changed != nullptr ? changed : &ignored);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("there is no memory for the coarse object of step {}", step.step);
  }
}

}  // namespace quarry::writer
