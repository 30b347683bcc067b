#include "writer/upkeep/edit.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/base/numbers.h"
#include "quarry/base/utf8.h"
#include "quarry/format/attribute_rules.h"
#include "quarry/format/coarse_object.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/invariants.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/pack/packed_steps.h"
#include "quarry/storage/directory_writer.h"
#include "writer/upkeep/catalogue_writer.h"
#include "writer/upkeep/coarse_writer.h"
#include "writer/upkeep/dataset_files.h"
#include "writer/upkeep/pack.h"

namespace quarry::writer {

namespace fs = std::filesystem;

namespace {

using Steps = std::map<std::uint64_t, StepDescription>;

/// The name of a removed step has this behind kStagingPrefix and before its number.
constexpr std::string_view kRemoved = "removed-";

/// A dataset under the writing lock.
struct Locked {
  DirectoryLock lock;
  DatasetDescription dataset;
  std::set<std::uint64_t> hidden;  ///< steps whose removal was interrupted
};

/// Steps that readers see no more, and that are still on the disk.
Result<std::set<std::uint64_t>> HiddenSteps(const fs::path& dataset) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, Location(dataset / "steps").List());
  const std::string prefix = fmt::format("{}{}", kStagingPrefix, kRemoved);
  std::set<std::uint64_t> hidden;
  for (const FolderEntry& entry : entries) {
    if (!entry.name.starts_with(prefix)) continue;
    std::uint64_t number = 0;
    if (ReadNumber(std::string_view(entry.name).substr(prefix.size()), &number)) hidden.insert(number);
  }
  return hidden;
}

Result<Locked> Lock(const fs::path& dataset, const LockOptions& locking) {
  QUARRY_ASSIGN_OR_RETURN(HeldDataset held, HoldDataset(dataset, locking));
  QUARRY_ASSIGN_OR_RETURN(std::set<std::uint64_t> hidden, HiddenSteps(dataset));
  QUARRY_RETURN_IF_ERROR(RemoveStaged(dataset));
  return Locked{std::move(held.lock), std::move(held.description), std::move(hidden)};
}

// ---- Attributes

constexpr std::string_view kUnits = "units";

/// Attributes and unit of what an owner is.
struct Owned {
  Attributes* attributes = nullptr;
  std::string* units = nullptr;  ///< null: it has none of its own
};

Status NoField(const std::string& field, const fs::path& dataset) {
  return NotFound("field \"{}\" is not in \"{}\"; run \"quarry info\" for those that are", field,
                  dataset.string());
}

Result<std::vector<Owned>> Find(const AttributeOwner& owner, const fs::path& path,
                                DatasetDescription* dataset) {
  using Kind = AttributeOwner::Kind;
  if (owner.kind == Kind::kDataset) return std::vector<Owned>{{&dataset->attributes, nullptr}};
  const std::optional<std::size_t> number = dataset->FindField(owner.field);
  if (!number) return NoField(owner.field, path);
  FieldDescription& field = dataset->fields[*number];
  if (owner.kind == Kind::kField) return std::vector<Owned>{{&field.attributes, &field.units}};
  // Compared before any of them changes.
  const GridDescription of_field = dataset->GridOf(field);
  std::vector<Owned> found;
  for (std::size_t g = 0; g < dataset->grids.size(); ++g) {
    GridDescription& grid = dataset->grids[g];
    for (std::size_t a = 0; a < 3; ++a) {
      const bool shared = grid.has_axis[a] && grid.axis_names[a] == of_field.axis_names[owner.axis] &&
                          IsSameAxis(grid, a, of_field, owner.axis);
      if (shared || (g == field.grid && a == owner.axis))
        found.push_back({&grid.axis_attributes[a], &grid.axis_units[a]});
    }
  }
  return found;
}

Status Set(const Attribute& attribute, const Owned& owned) {
  if (attribute.name == kUnits && owned.units != nullptr) {
    const auto* const text = std::get_if<std::string>(&attribute.value);
    if (text == nullptr) return InvalidArgument("units must be a text, not {}", ValueText(attribute));
    if (text->size() > kMaxTimeUnit)
      return InvalidArgument("units have {} bytes; the maximum is {}", text->size(), kMaxTimeUnit);
    *owned.units = *text;
    return Status::Ok();
  }
  if (IsSaidElsewhere(attribute.name))
    return InvalidArgument(
        "\"{}\" is not an attribute here: it follows from the storage of samples or times; write the data "
        "again to change it",
        attribute.name);
  const auto known = std::ranges::find(*owned.attributes, attribute.name, &Attribute::name);
  if (known != owned.attributes->end()) {
    known->value = attribute.value;
  } else {
    owned.attributes->push_back(attribute);
  }
  return Status::Ok();
}

Status Unset(const std::string& name, const Owned& owned) {
  if (name == kUnits && owned.units != nullptr && !owned.units->empty()) {
    owned.units->clear();
    return Status::Ok();
  }
  if (std::erase_if(*owned.attributes, [&](const Attribute& one) { return one.name == name; }) > 0)
    return Status::Ok();
  return NotFound("there is no attribute \"{}\" to remove", Printable(name));
}

// ---- Steps and fields

/// The steps and fields that one call removes, and the rest.
class Removing {
 public:
  Removing(fs::path path, Locked locked, const Removal& removal)
      : path_(std::move(path)),
        locked_(std::move(locked)),
        steps_(removal.steps.begin(), removal.steps.end()),
        fields_(removal.fields.begin(), removal.fields.end()) {}

  Result<RemovalReport> Execute() {
    QUARRY_RETURN_IF_ERROR(ReadSteps());
    QUARRY_RETURN_IF_ERROR(CheckNames());
    for (const auto& [number, step] : all_) {
      const auto goes = [&](const FieldStepDescription& field) { return fields_.contains(field.name); };
      if (!step.fields.empty() && std::ranges::all_of(step.fields, goes)) steps_.insert(number);
    }
    QUARRY_RETURN_IF_ERROR(CheckNeeded());
    QUARRY_RETURN_IF_ERROR(ShortenDescription());
    CountBytes();
    QUARRY_RETURN_IF_ERROR(UnpackSteps(path_, ChangedSteps()));
    QUARRY_RETURN_IF_ERROR(CatalogueWriter::DoubtAll(path_));
    // Removed steps first disappear for readers, then from the disk.
    QUARRY_RETURN_IF_ERROR(HideSteps());
    QUARRY_RETURN_IF_ERROR(ShortenSteps());
    // After the steps: a field that no step has is harmless, and a later call can remove it.
    if (!fields_.empty()) QUARRY_RETURN_IF_ERROR(ReplaceDescription(path_, locked_.dataset));
    QUARRY_RETURN_IF_ERROR(RemoveFolders());
    const Status remade = RemakeCatalogue();
    (void)remade;  // the removal is complete; readers look at each step.json
    steps_.insert(gone_.begin(), gone_.end());
    report_.steps.assign(steps_.begin(), steps_.end());
    return std::move(report_);
  }

 private:
  Status ReadSteps() {
    QUARRY_ASSIGN_OR_RETURN(const std::set<std::uint64_t> numbers, ListSteps(path_));
    const Location root = WithPacks(path_);
    for (const std::uint64_t number : numbers) {
      std::string text;
      QUARRY_ASSIGN_OR_RETURN(StepDescription step,
                              ReadStep(root / format::StepFolder(number), locked_.dataset, &text));
      records_[number] = format::RecordOf(step, text);
      all_[number] = std::move(step);
    }
    return Status::Ok();
  }

  /// Steps that an interrupted removal has hidden are none that are unknown.
  Status CheckNames() {
    for (auto step = steps_.begin(); step != steps_.end();) {
      if (!all_.contains(*step) && locked_.hidden.contains(*step)) {
        gone_.insert(*step);
        step = steps_.erase(step);
        continue;
      }
      if (!all_.contains(*step))
        return NotFound("step {} is not in \"{}\"; run \"quarry info\" for those that are", *step,
                        path_.string());
      ++step;
    }
    for (const std::string& field : fields_) {
      if (!locked_.dataset.FindField(field)) return NoField(field, path_);
    }
    if (fields_.size() < locked_.dataset.fields.size()) return Status::Ok();
    return FailedPrecondition("no field of \"{}\" would remain; remove the whole directory instead",
                              path_.string());
  }

  /// Remaining steps may need the ones to be removed.
  Status CheckNeeded() const {
    for (const FieldDescription& field : locked_.dataset.fields) {
      if (fields_.contains(field.name) || !field.complex) continue;
      for (const FieldDescription& other : locked_.dataset.fields) {
        if (other.complex && other.complex->of == field.complex->of && fields_.contains(other.name))
          return FailedPrecondition("field \"{}\" is a part of complex \"{}\", as is \"{}\"; remove both",
                                    other.name, field.complex->of, field.name);
      }
    }
    for (const auto& [number, step] : all_) {
      for (const FieldStepDescription& field : step.fields) {
        if (fields_.contains(field.name)) continue;
        if (steps_.contains(number)) {
          QUARRY_RETURN_IF_ERROR(CheckStill(number, field.name));
          continue;
        }
        for (const std::uint64_t other : field.references) {
          if (steps_.contains(other))
            return FailedPrecondition(
                "field \"{}\" of step {} refers to step {}; remove that step as well, or keep both",
                field.name, number, other);
        }
      }
    }
    return Status::Ok();
  }

  Status CheckStill(std::uint64_t step, const std::string& name) const {
    const std::optional<std::size_t> field = locked_.dataset.FindField(name);
    if (!field || !locked_.dataset.fields[*field].still) return Status::Ok();
    return FailedPrecondition(
        "step {} has the field \"{}\", which stands for all steps; remove the field as well, or keep "
        "the step",
        step, name);
  }

  bool Stays(std::uint64_t step, const FieldStepDescription& field) const {
    return !steps_.contains(step) && !fields_.contains(field.name);
  }

  void CountBytes() {
    std::map<std::uint64_t, std::uint64_t> masks;  // masks of the removed fields: bytes by name
    for (const auto& [number, step] : all_) {
      for (const FieldStepDescription& field : step.fields) {
        if (Stays(number, field)) {
          if (field.mask) masks_.insert(field.mask->name);
          continue;
        }
        report_.bytes += field.stored_bytes;
        if (field.mask) masks[field.mask->name] = field.mask->bytes();
      }
    }
    for (const auto& [name, bytes] : masks) report_.bytes += masks_.contains(name) ? 0 : bytes;
  }

  /// Steps that are removed, or have a removed field.
  std::set<std::uint64_t> ChangedSteps() const {
    std::set<std::uint64_t> changed = steps_;
    for (const auto& [number, step] : all_) {
      const auto goes = [&](const FieldStepDescription& field) { return fields_.contains(field.name); };
      if (std::ranges::any_of(step.fields, goes)) changed.insert(number);
    }
    return changed;
  }

  /// By a name that no reader looks at, and that the next writer removes.
  Status HideSteps() const {
    for (const std::uint64_t step : steps_) {
      QUARRY_RETURN_IF_ERROR(Rename(path_ / format::StepFolder(step),
                                    path_ / "steps" / fmt::format("{}{}{}", kStagingPrefix, kRemoved, step)));
    }
    return SyncDirectory(path_ / "steps");
  }

  Status ShortenSteps() {
    const fs::path temporary = path_ / "steps" / fmt::format("{}step.json", kStagingPrefix);
    for (const auto& [number, step] : all_) {
      if (steps_.contains(number)) continue;
      StepDescription shorter = step;
      if (std::erase_if(shorter.fields, [&](const auto& field) { return fields_.contains(field.name); }) == 0)
        continue;
      QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(shorter, "step.json"));
      records_[number] = format::RecordOf(shorter, text);
      QUARRY_RETURN_IF_ERROR(ReplaceFile(path_ / format::StepFolder(number) / "step.json",
                                         std::as_bytes(std::span(text)), temporary));
    }
    return Status::Ok();
  }

  Status RemakeCatalogue() {
    for (const std::uint64_t step : steps_) records_.erase(step);
    CatalogueWriter catalogue = CatalogueWriter::Found(path_);
    std::vector<format::StepRun> steps;
    for (const auto& [step, record] : records_) format::AddStep(step, &steps);
    auto next = records_.begin();
    return catalogue.Remake(std::move(steps), [&]() -> Result<std::optional<format::StepRecord>> {
      if (next == records_.end()) return std::optional<format::StepRecord>();
      return std::optional(std::move((next++)->second));
    });
  }

  /// In memory alone. The fields that stay keep their numbers.
  Status ShortenDescription() {
    DatasetDescription& dataset = locked_.dataset;
    for (std::size_t f = 0; f < dataset.fields.size(); ++f) dataset.fields[f].number = dataset.NumberOf(f);
    std::erase_if(dataset.fields,
                  [&](const FieldDescription& field) { return fields_.contains(field.name); });
    return format::CheckDataset(dataset);
  }

  /// The coarse object of a step has bytes of its removed fields: the others get one anew.
  Status RemoveCoarse(std::uint64_t number, const StepDescription& step) const {
    if (steps_.contains(number) || !locked_.dataset.has_coarse_objects) return Status::Ok();
    StepDescription shorter = step;
    if (std::erase_if(shorter.fields, [&](const auto& field) { return fields_.contains(field.name); }) == 0)
      return Status::Ok();
    const fs::path folder = path_ / format::StepFolder(number);
    const Result<bool> written =
        WriteCoarseObject({path_, folder}, locked_.dataset, shorter, DirectoryWriter());
    return written.ok() ? Status::Ok() : RemoveTree(folder / format::kCoarseFile);
  }

  Status RemoveFolders() const {
    for (const auto& [number, step] : all_) {
      if (steps_.contains(number)) continue;
      for (const std::string& field : fields_)
        QUARRY_RETURN_IF_ERROR(RemoveTree(path_ / format::StepFolder(number) / field));
    }
    for (const auto& [number, step] : all_) QUARRY_RETURN_IF_ERROR(RemoveCoarse(number, step));
    QUARRY_RETURN_IF_ERROR(RemoveEntries(path_ / "masks", [&](const std::string& name) {
      return std::ranges::none_of(masks_, [&](std::uint64_t mask) { return format::MaskText(mask) == name; });
    }));
    return RemoveStaged(path_);
  }

  const fs::path path_;
  Locked locked_;
  std::set<std::uint64_t> steps_;
  std::set<std::uint64_t> gone_;  ///< subset of `steps_` that an interrupted removal has hidden
  const std::set<std::string> fields_;
  Steps all_;
  std::map<std::uint64_t, format::StepRecord> records_;  ///< as they will be
  std::set<std::uint64_t> masks_;                        ///< that stay
  RemovalReport report_;
};

}  // namespace

Result<DatasetDescription> EditAttributes(const fs::path& path, const AttributeOwner& owner,
                                          const Attributes& set, const std::vector<std::string>& removed,
                                          const LockOptions& locking) {
  QUARRY_ASSIGN_OR_RETURN(Locked locked, Lock(path, locking));
  DatasetDescription& dataset = locked.dataset;
  QUARRY_ASSIGN_OR_RETURN(const std::vector<Owned> owners, Find(owner, path, &dataset));
  for (const Owned& owned : owners) {
    for (const Attribute& attribute : set) QUARRY_RETURN_IF_ERROR(Set(attribute, owned));
    for (const std::string& name : removed) QUARRY_RETURN_IF_ERROR(Unset(name, owned));
  }
  QUARRY_RETURN_IF_ERROR(format::CheckDataset(dataset));
  QUARRY_RETURN_IF_ERROR(ReplaceDescription(path, dataset));
  return std::move(dataset);
}

Result<RemovalReport> Remove(const fs::path& path, const Removal& removal, const LockOptions& locking) {
  QUARRY_ASSIGN_OR_RETURN(Locked locked, Lock(path, locking));
  return Removing(path, std::move(locked), removal).Execute();
}

}  // namespace quarry::writer
