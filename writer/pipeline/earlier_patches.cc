#include "writer/pipeline/earlier_patches.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "quarry/codec/patch_reader.h"
#include "quarry/dataset/dataset.h"
#include "quarry/dataset/read_samples.h"
#include "quarry/dataset/step_manifests.h"
#include "quarry/format/manifest.h"
#include "quarry/pack/packed_steps.h"

namespace quarry::writer {
namespace {

std::uint64_t BytesOf(const DecodedPatch& patch) {
  std::uint64_t bytes = patch.validity.size();
  for (const Bytes& layer : patch.layers) bytes += layer.size();
  return bytes;
}

/// A field in published steps. Nothing is listed.
class Steps {
 public:
  Steps(const Location& root, DatasetDescription dataset, std::string field)
      : root_(WithPacks(root)), dataset_(std::move(dataset)), field_(std::move(field)) {}

  /// The record of the field in a step; null if there is no such step, or it does not have the field.
  Result<std::shared_ptr<const FieldStepDescription>> Find(std::uint64_t step) {
    if (const auto known = known_.find(step); known != known_.end()) return known->second;
    auto read = ReadFieldOfStep(root_, step, field_, dataset_);
    if (!read.ok() && read.status().code() != StatusCode::kNotFound) return read.status();
    return known_.emplace(step, read.ok() ? *std::move(read) : nullptr).first->second;
  }

  const Location& root() const { return root_; }

 private:
  const Location root_;
  const DatasetDescription dataset_;
  const std::string field_;
  std::map<std::uint64_t, std::shared_ptr<const FieldStepDescription>> known_;
};

/// The steps that reading one needs, itself included.
/// @errors kDataLoss: more than a keyframe allows
Status AddNeeded(Steps* steps, std::uint64_t step, std::set<std::uint64_t>* needed) {
  if (!needed->insert(step).second) return Status::Ok();
  if (needed->size() > static_cast<std::size_t>(kMaxKeyframe) + 1)
    return DataLoss("a step of \"{}\" needs more than {} others", steps->root(), kMaxKeyframe);
  QUARRY_ASSIGN_OR_RETURN(const auto record, steps->Find(step));
  if (!record) return Status::Ok();
  for (const std::uint64_t reference : record->references)
    QUARRY_RETURN_IF_ERROR(AddNeeded(steps, reference, needed));
  return Status::Ok();
}

/// The last step before one that has the field.
Result<std::vector<std::uint64_t>> LastBefore(Steps* steps, StepNumbers* published, std::uint64_t step) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t>* all, published->All());
  for (auto it = std::lower_bound(all->begin(), all->end(), step); it != all->begin();) {
    QUARRY_ASSIGN_OR_RETURN(const auto record, steps->Find(*--it));
    if (record) return std::vector<std::uint64_t>{*it};
  }
  return std::vector<std::uint64_t>();
}

}  // namespace

Result<const std::vector<std::uint64_t>*> StepNumbers::All() {
  if (!steps_) {
    QUARRY_ASSIGN_OR_RETURN(steps_, quarry::ListSteps(dataset_));
  }
  return &*steps_;
}

void StepNumbers::Add(std::uint64_t step) {
  if (!steps_) return;
  const auto place = std::ranges::lower_bound(*steps_, step);
  if (place == steps_->end() || *place != step) steps_->insert(place, step);
}

Result<std::vector<std::uint64_t>> ChooseReferences(const Location& root, std::uint64_t step,
                                                    const FieldDescription& field,
                                                    const std::vector<std::uint64_t>* planned,
                                                    StepNumbers* published) {
  const Location manifest = root / "dataset.json";
  const Result<std::string> text = manifest.ReadText(format::kManifestLimit);
  if (text.status().code() == StatusCode::kNotFound) return std::vector<std::uint64_t>();
  QUARRY_RETURN_IF_ERROR(text.status());
  QUARRY_ASSIGN_OR_RETURN(DatasetDescription dataset,
                          format::DecodeDatasetManifest(*text).Annotate(fmt::format("\"{}\"", manifest)));
  Steps steps(root, std::move(dataset), field.name);
  std::vector<std::uint64_t> chosen;
  if (planned != nullptr) {
    chosen = *planned;
  } else {
    QUARRY_ASSIGN_OR_RETURN(chosen, LastBefore(&steps, published, step));
  }
  // The plan is for all fields of a run: one that not all of these steps have refers to the others.
  std::vector<std::uint64_t> there;
  std::set<std::uint64_t> needed;
  for (const std::uint64_t reference : chosen) {
    QUARRY_ASSIGN_OR_RETURN(const auto record, steps.Find(reference));
    if (!record) continue;
    there.push_back(reference);
    QUARRY_RETURN_IF_ERROR(AddNeeded(&steps, reference, &needed));
  }
  chosen = std::move(there);
  if (planned == nullptr && needed.size() >= static_cast<std::size_t>(field.keyframe)) chosen.clear();
  return chosen;
}

/// Reads patches of published steps.
class EarlierPatches::Reader {
 public:
  explicit Reader(std::shared_ptr<const Dataset> dataset)
      : dataset_(std::move(dataset)), engine_(kMemory, /*threads=*/1) {}

  Result<DecodedPatch> Read(const std::string& field, std::uint64_t step, const Box& box) {
    query::ReadRequest request;
    request.field = field;
    request.step = step;
    request.box = box;
    QUARRY_ASSIGN_OR_RETURN(const query::ReadPlan plan, dataset_->Plan(request));
    Sink sink;
    QUARRY_RETURN_IF_ERROR(ExecutePatches(
        *dataset_, plan, &engine_, [] { return false; }, &sink));
    return std::move(sink.decoded);
  }

 private:
  static constexpr std::uint64_t kMemory = std::uint64_t{1} << 30;

  struct Sink final : PatchSink {
    Status Patch(int /*level*/, std::size_t /*index*/, const StoredPatch& patch) override {
      decoded = patch->Decoded();
      return Status::Ok();
    }
    DecodedPatch decoded;
  };

  const std::shared_ptr<const Dataset> dataset_;
  ReadEngine engine_;
};

EarlierPatches::EarlierPatches(Location dataset, std::string field, DataType type, std::uint64_t most)
    : dataset_(std::move(dataset)), field_(std::move(field)), type_(type), most_(most) {}

EarlierPatches::~EarlierPatches() = default;

void EarlierPatches::Begin(std::uint64_t step, std::vector<std::uint64_t> references,
                           const std::set<std::uint64_t>& later) {
  const std::scoped_lock lock(mutex_);
  step_ = step;
  references_ = std::move(references);
  needed_later_ = later.contains(step);
  std::erase_if(steps_, [&](const auto& kept) {
    return !later.contains(kept.first) && std::ranges::count(references_, kept.first) == 0;
  });
  bytes_ = 0;
  for (const auto& [number, patches] : steps_) {
    for (const auto& [patch, decoded] : patches) bytes_ += BytesOf(*decoded);
  }
  reader_ = nullptr;  // it reads an earlier state of the dataset
}

Result<DecodedPatch> EarlierPatches::Find(std::int64_t patch, const Box& box) {
  DecodedPatch found;
  for (const std::uint64_t reference : references_) {
    QUARRY_ASSIGN_OR_RETURN(const Kept kept, FindAt(reference, patch, box));
    found = MeanOf(type_, std::move(found), *kept);
  }
  return found;
}

Result<EarlierPatches::Kept> EarlierPatches::FindAt(std::uint64_t step, std::int64_t patch, const Box& box) {
  std::shared_ptr<Reader> reader;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = steps_.find(step); known != steps_.end()) {
      if (const auto kept = known->second.find(patch); kept != known->second.end()) return kept->second;
    }
    if (!reader_) {
      QUARRY_ASSIGN_OR_RETURN(auto dataset, Dataset::Open(dataset_));
      reader_ = std::make_shared<Reader>(std::move(dataset));
    }
    reader = reader_;
  }
  QUARRY_ASSIGN_OR_RETURN(DecodedPatch read, reader->Read(field_, step, box));
  return Kept(std::make_shared<const DecodedPatch>(std::move(read)));
}

void EarlierPatches::Keep(std::int64_t patch, DecodedPatch decoded) {
  if (!needed_later_) return;
  const std::scoped_lock lock(mutex_);
  const std::uint64_t bytes = BytesOf(decoded);
  if (bytes_ + bytes > most_) return;
  bytes_ += bytes;
  steps_[step_].insert_or_assign(patch, std::make_shared<const DecodedPatch>(std::move(decoded)));
}

}  // namespace quarry::writer
