#include "clients/cpp/grpc/payload_decoder.h"

#include <algorithm>

#include "quarry/base/checksum.h"
#include "quarry/format/description_rules.h"
#include "quarry/query/patch_part.h"
#include "quarry/query/question_rules.h"
#include "quarry/wire/convert.h"

namespace quarry::client::internal {

namespace pb = ::quarry::v1;

namespace {

/// Most decoded samples that may wait for their turn.
constexpr std::size_t kMostUnderWay = 64 << 20;

}  // namespace

/// One patch on its way from payload to its place in the level.
struct PayloadDecoder::Task {
  struct Level {
    Bytes mask;
    std::vector<Bytes> payload;  ///< one for each layer
  };

  std::uint64_t patch = 0;
  int level = 0;          ///< level of the answer
  int further_layer = 0;  ///< 0, or the only one that `levels` have, which refines the level
  query::PatchPart part;
  Box samples;               ///< box of the patch, level 0
  query::LevelChoice shown;  ///< to which `levels` lead
  bool last = false;         ///< nothing better follows
  SamplePlace place;         ///< unless the part is empty
  std::vector<Level> levels;
  std::unique_ptr<PatchReader> reader;
  std::size_t sample_size = 0;
  std::size_t bytes = 0;  ///< bytes of the samples
  std::promise<Status> done;
  std::future<Status> result = done.get_future();

  void Run() {
    Status status;
    try {
      status = Decode();
    } catch (const std::bad_alloc&) {
      status = {StatusCode::kInternal, "no memory"};  // a text that allocates nothing
    }
    levels.clear();
    done.set_value(std::move(status));
  }

 private:
  Status Decode() {
    QUARRY_RETURN_IF_ERROR(further_layer > 0 ? AddLayer() : Advance());
    if (placed || part.extent.empty()) return Status::Ok();
    query::WritePart(part, reader->samples(), LevelBox(samples, shown.level), shown.level - level,
                     sample_size, place);
    return Status::Ok();
  }

  Status AddLayer() {
    if (levels.empty()) return Status::Ok();  // damaged
    std::vector<ByteSpan> payloads;
    for (const Level& of_level : levels) payloads.emplace_back(of_level.payload[0]);
    return reader->AddLayer(payloads);
  }

  Status Advance() {
    const bool into_place = last && shown.level == level && part.whole() && !levels.empty();
    for (const Level& payload : levels) {
      const std::vector<ByteSpan> layers(payload.payload.begin(), payload.payload.end());
      reader->KeepLayers(static_cast<int>(layers.size()));
      placed = into_place && &payload == &levels.back();
      QUARRY_RETURN_IF_ERROR(placed ? reader->AdvanceInto(layers, payload.mask, place)
                                    : reader->Advance(layers, payload.mask));
    }
    return Status::Ok();
  }

  bool placed = false;  ///< the samples are decoded to their place
};

Result<std::unique_ptr<PayloadDecoder>> PayloadDecoder::Make(const DatasetDescription& dataset,
                                                             const query::ReadRequest& request,
                                                             const query::AnswerHeader& header,
                                                             DecodePool* pool) {
  const auto number = dataset.FindField(header.field);
  if (!number || header.levels.empty())
    return InternalError("the server answers for a field \"{}\", which the dataset does not have",
                         header.field);
  const CoderId id = dataset.fields[*number].coder;
  const PatchCoder* coder = FindCoder(id);
  if (coder == nullptr || !coder->Supports(header.type))
    return InternalError(
        "coder {} is not known, or not for this type; use a newer Quarry, or the samples "
        "encoding",
        static_cast<int>(id));
  const GridDescription& described = dataset.GridOf(*number);
  if (!wire::PatchesFit(described))
    return InternalError(
        "the server sends patches of {} samples, which do not fit into a message; ask for samples",
        ToString(LargestPatchShape(described.dims, described.patch)));
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(described));
  query::Query query;
  query.box = query::BoxOn(described.domain(), request.box);
  query.target = request.target;
  query.allow_damage = request.allow_damage;
  return std::unique_ptr<PayloadDecoder>(
      new PayloadDecoder(described.levels, grid, std::move(query), pool, coder, header));
}

PayloadDecoder::PayloadDecoder(int levels, const PatchGrid& grid, query::Query query, DecodePool* pool,
                               const PatchCoder* coder, const query::AnswerHeader& header)
    : levels_(levels),
      layers_(header.levels.front().layer + 1),
      grid_(grid),
      query_(std::move(query)),
      pool_(pool),
      coder_(coder),
      type_(header.type),
      answer_(header.levels) {}

PayloadDecoder::~PayloadDecoder() {
  for (const std::shared_ptr<Task>& task : under_way_) task->result.wait();
}

/// The layer that the current level of the answer adds to the one before; 0: it is finer than that.
int PayloadDecoder::FurtherLayer() const {
  return pass_ > 0 && answer_[pass_].level == answer_[pass_ - 1].level ? answer_[pass_].layer : 0;
}

/// Reads the payload of a patch.
Status PayloadDecoder::TakeLevels(const pb::PatchPayload& patch, MessageData* data, Task* task) const {
  const auto take = [&](std::uint64_t size, std::uint64_t checksum, Bytes* bytes) -> Status {
    if (size > data->size())
      return InternalError("the server's payload of patch {} is {} bytes short", task->patch,
                           size - data->size());
    bytes->resize(size);
    if (!data->Read(bytes->data(), size)) return InternalError("a message of the server ends early");
    if (size == 0 || Checksum(*bytes) == checksum) return Status::Ok();
    return DataLoss("payload of patch {} was damaged on its way; ask again", task->patch);
  };
  const bool further = task->further_layer > 0;
  const int layers = further ? 1 : layers_;
  for (const pb::LevelPayload& payload : patch.levels()) {
    Task::Level& added = task->levels.emplace_back();
    const int sent = 1 + payload.further_sizes_size();
    if (sent > layers || payload.further_checksums_size() != sent - 1 ||
        (sent < layers && !query_.allow_damage) || (further && payload.mask_size() > 0))
      return InternalError("the server sent {} layers of patch {} instead of {}", sent, task->patch, layers);
    QUARRY_RETURN_IF_ERROR(take(payload.mask_size(), payload.mask_checksum(), &added.mask));
    added.payload.resize(static_cast<std::size_t>(sent));
    QUARRY_RETURN_IF_ERROR(take(payload.size(), payload.checksum(), &added.payload[0]));
    for (int k = 1; k < sent; ++k) {
      QUARRY_RETURN_IF_ERROR(take(payload.further_sizes(k - 1), payload.further_checksums(k - 1),
                                  &added.payload[static_cast<std::size_t>(k)]));
    }
  }
  return Status::Ok();
}

/// Checks the result of a task. Payload beyond damage is useless: a server that goes on with an answer does
/// not remember the damage.
Status PayloadDecoder::CheckReached(Task* task) {
  const PatchReader& reader = *task->reader;
  if (task->further_layer > 0) {
    const auto had = static_cast<std::size_t>(levels_ - reader.level());
    if (!task->levels.empty() && task->levels.size() < had)
      return InternalError("the server sent {} levels of layer {} of patch {} instead of {}",
                           task->levels.size(), task->further_layer, task->patch, had);
    task->levels.resize(reader.layers() == task->further_layer ? std::min(had, task->levels.size()) : 0);
    task->shown = {reader.level(), task->levels.empty() ? reader.layers() - 1 : task->further_layer};
    return Status::Ok();
  }
  int layers = reader.layers();
  for (Task::Level& level : task->levels) {
    layers = std::min(layers, static_cast<int>(level.payload.size()));
    level.payload.resize(static_cast<std::size_t>(layers));
  }
  const bool damaged = damaged_.contains(task->patch);
  const int reached = reader.level() - static_cast<int>(task->levels.size());
  if (damaged ? reached <= task->level : reached != task->level)
    return InternalError("the server sent {} levels of patch {}, which do not lead to level {}",
                         task->levels.size(), task->patch, task->level);
  if (reached == levels_)
    return DataLoss("patch {} is damaged at every level; run \"quarry verify\" where the dataset is",
                    task->patch);
  task->shown = {reached, layers - 1};
  return Status::Ok();
}

Result<std::shared_ptr<PayloadDecoder::Task>> PayloadDecoder::MakeTask(const pb::PatchPayload& patch,
                                                                       int level, MessageData* data) {
  auto task = std::make_shared<Task>();
  task->patch = patch.patch();
  task->level = level;
  task->further_layer = FurtherLayer();
  if (task->patch >= static_cast<std::uint64_t>(grid_.patch_count()))
    return InternalError("the server sent patch {}, and the dataset has {}", task->patch,
                         grid_.patch_count());
  task->samples = grid_.PatchBox(static_cast<std::int64_t>(task->patch));
  if (Intersect(task->samples, query_.box).empty())
    return InternalError("the server sent patch {}, which was not asked for", task->patch);
  if (patch.levels_size() > levels_)
    return InternalError("the server sent {} levels of patch {}, and the dataset has {}", patch.levels_size(),
                         task->patch, levels_);
  if (patch.damaged() && !query_.allow_damage)
    return InternalError("the server sent patch {} as damaged instead of an error", task->patch);
  if (!arrived_.insert(task->patch).second)
    return InternalError("the server sent patch {} twice at level {}", task->patch, level);
  task->part = query::PartOf(query_, level, task->samples);
  if (const auto kept = readers_.find(task->patch); kept != readers_.end()) {
    task->reader = std::move(kept->second);
    readers_.erase(kept);
  } else if (task->further_layer == 0) {
    task->reader =
        std::make_unique<PatchReader>(*coder_, PatchLayout{type_, task->samples.shape(), levels_}, layers_);
  } else {
    return InternalError("the server sent layer {} of patch {} without the one before", task->further_layer,
                         task->patch);
  }
  QUARRY_RETURN_IF_ERROR(TakeLevels(patch, data, task.get()));
  if (task->further_layer > 0 && task->levels.empty() && !patch.damaged())
    return InternalError("the server sent no part of layer {} of patch {}", task->further_layer, task->patch);
  if (task->further_layer == 0) {
    if (damaged_.contains(task->patch)) task->levels.clear();
    if (patch.damaged()) damaged_.insert(task->patch);
  }
  QUARRY_RETURN_IF_ERROR(CheckReached(task.get()));
  task->last = pass_ + 1 == answer_.size();
  task->sample_size = SizeOf(type_);
  task->bytes = static_cast<std::size_t>(LevelBox(task->samples, level).volume()) * task->sample_size;
  return task;
}

/// Has the samples of a patch go to their place.
Status PayloadDecoder::SetPlace(LevelAssembler* assembler, Task* task) {
  if (task->part.extent.empty()) return Status::Ok();
  if (LevelBox(task->samples, task->shown.level).empty())
    return DataLoss("patch {} is damaged, and its coarser level {} has no sample", task->patch,
                    task->shown.level);
  QUARRY_ASSIGN_OR_RETURN(task->place, assembler->AddBlock(task->level, task->part.extent, task->shown));
  return Status::Ok();
}

Status PayloadDecoder::Add(const pb::PatchPayloads& part, MessageData* data, LevelAssembler* assembler) {
  const int level = static_cast<int>(part.level());
  if (pass_ >= answer_.size() || answer_[pass_].level != level)
    return InternalError("the server sent payload of level {}, which is not due", level);
  for (const pb::PatchPayload& patch : part.patches()) {
    QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<Task> task, MakeTask(patch, level, data));
    QUARRY_RETURN_IF_ERROR(SetPlace(assembler, task.get()));
    while (!under_way_.empty() && bytes_under_way_ + task->bytes > kMostUnderWay)
      QUARRY_RETURN_IF_ERROR(Finish());
    pool_->Submit({level, 0}, [task] { task->Run(); });
    bytes_under_way_ += task->bytes;
    under_way_.push_back(task);
    // Finished patches are released at once.
    while (under_way_.front()->result.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      QUARRY_RETURN_IF_ERROR(Finish());
      if (under_way_.empty()) break;
    }
  }
  return Status::Ok();
}

Status PayloadDecoder::EndLevel() {
  while (!under_way_.empty()) QUARRY_RETURN_IF_ERROR(Finish());
  arrived_.clear();
  ++pass_;
  return Status::Ok();
}

/// Finishes the oldest patch.
Status PayloadDecoder::Finish() {
  const std::shared_ptr<Task> task = under_way_.front();
  under_way_.pop_front();
  bytes_under_way_ -= task->bytes;
  Status status = task->result.get();
  if (!status.ok())
    return std::move(status).Annotate(fmt::format("cannot decode patch {} of the server", task->patch));
  if (!task->last) readers_[task->patch] = std::move(task->reader);
  return Status::Ok();
}

}  // namespace quarry::client::internal
