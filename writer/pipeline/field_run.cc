#include "writer/pipeline/field_run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "quarry/base/missing.h"
#include "writer/pipeline/assign.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/copy_part.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::writer {
namespace {

/// Patches that wait for a thread, where nothing else bounds them: more would not be in the processor's
/// cache.
constexpr std::uint64_t kMostPatchBytes = 64 << 20;
/// Samples that are read at a time: large enough for a disk, small enough to be in the cache when they are
/// copied to their patches.
constexpr std::uint64_t kPieceBytes = 1 << 20;

/// Adds the time of a scope to a phase, but the time in which this thread waits for those that encode to
/// kEncode.
class MovingTimer {
 public:
  MovingTimer(PhaseSeconds* seconds, Phase phase, const EncoderPool& threads)
      : seconds_(*seconds),
        phase_(static_cast<std::size_t>(phase)),
        threads_(threads),
        waited_before_(threads.waited()),
        begin_(MPI_Wtime()) {}
  ~MovingTimer() {
    const double waited = threads_.waited() - waited_before_;
    seconds_[phase_] += MPI_Wtime() - begin_ - waited;
    seconds_[static_cast<std::size_t>(Phase::kEncode)] += waited;
  }
  MovingTimer(const MovingTimer&) = delete;
  MovingTimer& operator=(const MovingTimer&) = delete;

 private:
  PhaseSeconds& seconds_;
  const std::size_t phase_;
  const EncoderPool& threads_;
  const double waited_before_;
  const double begin_;
};

/// Range of the samples behind a view.
SampleScan ScanView(DataType type, const BoxView& view, const Box& box, std::optional<std::uint64_t> fill) {
  const std::size_t size = SizeOf(type);
  const Index3 shape = box.shape();
  SampleScan scan;
  Bytes row(static_cast<std::size_t>(shape[0]) * size);
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const std::byte* first = view.data + y * view.stride[1] + z * view.stride[2];
      ByteSpan samples(first, row.size());
      if (view.stride[0] != static_cast<std::int64_t>(size)) {
        for (std::int64_t x = 0; x < shape[0]; ++x)
          std::copy_n(first + x * view.stride[0], size, row.data() + static_cast<std::size_t>(x) * size);
        samples = row;
      }
      scan.Add(ScanSamples(type, samples, fill));
    }
  }
  return scan;
}

/// Valid samples at chosen places of the grid, for the look at their range. Local.
/// @param box  of the grid, whose samples the view has
void ChooseSamples(DataType type, const BoxView& view, const Box& box, const Index3& dims,
                   std::optional<std::uint64_t> fill, std::vector<double>* chosen) {
  const SampleChoice choice(static_cast<std::uint64_t>(Volume(dims)));
  DispatchType(type, [&]<typename T>(T) {
    for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
      for (std::int64_t y = box.begin[1]; y < box.end[1]; ++y) {
        const std::byte* row =
            view.data + (y - box.begin[1]) * view.stride[1] + (z - box.begin[2]) * view.stride[2];
        const auto first = static_cast<std::uint64_t>(dims[0] * (y + dims[1] * z));
        const std::uint64_t end = first + static_cast<std::uint64_t>(box.end[0]);
        for (std::uint64_t at = choice.Next(first + static_cast<std::uint64_t>(box.begin[0])); at < end;
             at += choice.stride()) {
          T sample;
          const auto x = static_cast<std::int64_t>(at - first) - box.begin[0];
          std::memcpy(&sample, row + x * view.stride[0], sizeof(T));
          if (!IsMissing(sample, fill)) chosen->push_back(static_cast<double>(sample));
        }
      }
    }
  });
}

}  // namespace

DatasetWriter::FieldRun::FieldRun(DatasetWriter* writer, const FieldDescription& field, FieldSource* source,
                                  OwnPatches* own, EarlierPatches* earlier)
    : w_(*writer),
      field_(field),
      source_(*source),
      own_(*own),
      earlier_(earlier),
      grid_(w_.PlanOf(field)),
      wider_(source->wider()) {
  w_.patches_per_rank_.assign(static_cast<std::size_t>(w_.ranks_), 0);
}

Status DatasetWriter::FieldRun::Encode(const std::string& source_name) {
  QUARRY_RETURN_IF_ERROR(FindTolerance(source_name));
  QUARRY_RETURN_IF_ERROR(MakeChunks());
  QUARRY_ASSIGN_OR_RETURN(redistribution_, DescribeExchange());
  QUARRY_RETURN_IF_ERROR(OnEveryRank(w_.comm_, [&] {
    own_.Reserve(ExpectedPatches() + 1);
    StartThreads();
    return Status::Ok();
  }));
  for (const Chunk& chunk : chunks_) QUARRY_RETURN_IF_ERROR(GatherChunk(chunk));
  source_.Release();
  const Timer timer(&w_.seconds_, Phase::kEncode);
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(w_.comm_, threads_->Drain()));
  threads_.reset();
  progress_.reset();
  redistribution_.reset();
  own_.Sort();
  return Status::Ok();
}

Status DatasetWriter::FieldRun::MakeChunks() {
  const std::uint64_t bytes = held_ ? UINT64_MAX : ShareOfMemory(kChunkShare);
  for (const Box& patches : CutToChunks(grid_.patches, source_sample_bytes(), bytes, source_.unit())) {
    QUARRY_ASSIGN_OR_RETURN(const Chunk chunk, Chunk::Create(grid_.patches, patches));
    chunks_.push_back(chunk);
  }
  return Status::Ok();
}

Result<std::optional<redistribute::Redistribution>> DatasetWriter::FieldRun::DescribeExchange() const {
  using redistribute::Method;
  QUARRY_ASSIGN_OR_RETURN(auto redistribution, redistribute::Redistribution::Describe(
                                                   w_.comm_, {grid_.patches.dims(), SizeOf(field_.type),
                                                              Method::kPointToPoint, w_.options_.exchange}));
  return std::optional(std::move(redistribution));
}

void DatasetWriter::FieldRun::StartThreads() {
  progress_.emplace(fmt::format("encode {}", field_.name), ExpectedPatches(),
                    w_.options_.progress && w_.root());
  const std::uint64_t most =
      w_.options_.memory_per_rank ? *w_.options_.memory_per_rank / kPatchShare : kMostPatchBytes;
  const EncodeSettings settings{field_.coder, field_.type, w_.dataset_.GridOf(field_).levels, tolerances_,
                                field_.fill_bits()};
  threads_.emplace(
      w_.threads_, most,
      [this, settings](const PatchSamples& patch) -> Status {
        QUARRY_ASSIGN_OR_RETURN(const EncodedPatchOfGrid encoded, EncodeOne(settings, patch));
        return own_.Add(encoded, grid_.patches.PatchBox(patch.patch_index).volume());
      },
      [this](std::size_t done) { progress_->Update(done); });
}

Result<EncodedPatchOfGrid> DatasetWriter::FieldRun::EncodeOne(const EncodeSettings& settings,
                                                              const PatchSamples& patch) {
  if (earlier_ == nullptr) return EncodePatchOfGrid(grid_.patches, settings, patch);
  QUARRY_ASSIGN_OR_RETURN(const DecodedPatch reference,
                          earlier_->Find(patch.patch_index, grid_.patches.PatchBox(patch.patch_index)));
  DecodedPatch decoded;
  Result<EncodedPatchOfGrid> encoded =
      EncodePatchOfGrid(grid_.patches, settings, patch, &reference, &decoded);
  if (encoded.ok()) earlier_->Keep(patch.patch_index, std::move(decoded));
  return encoded;
}

Status DatasetWriter::FieldRun::FindTolerance(const std::string& source_name) {
  tolerances_ = CoderTolerances(field_, 0, 0);
  if (!field_.needs_range()) return Status::Ok();
  const Timer timer(&w_.seconds_, Phase::kRead);
  held_ = raw_bytes() <= ShareOfMemory(kHeldShare);
  QUARRY_ASSIGN_OR_RETURN(SampleScan scan, OnEveryRank(w_.comm_, [&] { return ScanField(); }));
  QUARRY_ASSIGN_OR_RETURN(scan.min, MinOverRanks(w_.comm_, scan.min));
  QUARRY_ASSIGN_OR_RETURN(scan.max, MaxOverRanks(w_.comm_, scan.max));
  tolerances_ = CoderTolerances(field_, scan.min, scan.max);
  QUARRY_RETURN_IF_ERROR(CheckRange(scan, source_name));
  if (std::isfinite(tolerances_.front())) return Status::Ok();
  return InvalidArgument(
      "the value range [{}, {}] of \"{}\" is too large for a relative tolerance; give an "
      "absolute one (--tolerance)",
      scan.min, scan.max, source_name);
}

Status DatasetWriter::FieldRun::CheckRange(const SampleScan& scan, const std::string& source_name) {
  QUARRY_ASSIGN_OR_RETURN(const Bytes gathered, GatherBytes(w_.comm_, std::as_bytes(std::span(chosen_))));
  chosen_ = {};
  return OnRoot(w_.comm_, [&]() -> Status {
    std::vector<double> sample(gathered.size() / sizeof(double));
    if (!sample.empty()) std::memcpy(sample.data(), gathered.data(), gathered.size());
    outlying_ = FindOutlying(&sample, scan.min, scan.max);
    if (!outlying_ || w_.options_.accept_range) return Status::Ok();
    return OutlyingRefusal(*outlying_, field_.name, source_name, w_.options_.range_words);
  });
}

Result<SampleScan> DatasetWriter::FieldRun::ScanField() {
  SampleScan scan;
  const std::optional<std::uint64_t> fill = wider_ ? wider_->fill : field_.fill_bits();
  const std::vector<Box> boxes = source_.Owned(grid_.patches.domain())->Of(w_.rank_);
  QUARRY_RETURN_IF_ERROR(LoadBoxes(boxes, [&](std::size_t, const Box& piece, const BoxView& view) {
    scan.Add(ScanView(source_type(), view, piece, fill));
    ChooseSamples(source_type(), view, piece, grid_.patches.dims(), fill, &chosen_);
    return Status::Ok();
  }));
  return scan;
}

template <typename Visit>
Status DatasetWriter::FieldRun::LoadBoxes(const std::vector<Box>& boxes, Visit visit) {
  if (source_.in_pieces() && !held_) {
    for (std::size_t b = 0; b < boxes.size(); ++b) QUARRY_RETURN_IF_ERROR(LoadPieces(b, boxes[b], visit));
    return Status::Ok();
  }
  if (!held_ || views_.empty()) {
    QUARRY_ASSIGN_OR_RETURN(views_, source_.Load(boxes));
  }
  for (std::size_t b = 0; b < boxes.size(); ++b) QUARRY_RETURN_IF_ERROR(visit(b, boxes[b], views_[b]));
  return Status::Ok();
}

template <typename Visit>
Status DatasetWriter::FieldRun::LoadPieces(std::size_t number, const Box& box, Visit visit) {
  for (const Box& piece : CutToPieces(box, source_sample_bytes(), kPieceBytes, source_.unit())) {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<BoxView> views, source_.Load({piece}));
    QUARRY_RETURN_IF_ERROR(visit(number, piece, views.front()));
  }
  return Status::Ok();
}

Status DatasetWriter::FieldRun::GatherChunk(const Chunk& chunk) {
  std::optional<PatchGathering> gathering;
  {
    const MovingTimer timer(&w_.seconds_, Phase::kRead, *threads_);
    const PatchGathering::Owner owner{[this](std::uint64_t bytes) { threads_->Reserve(bytes); },
                                      [&](PatchSamples patch) { Take(chunk, std::move(patch)); }};
    QUARRY_RETURN_IF_ERROR(OnEveryRank(w_.comm_, [&] {
      changes_.clear();
      const std::unique_ptr<distribution::RankBoxes> boxes = source_.Owned(chunk.samples());
      gathering.emplace(chunk.grid(), field_.type, Place(chunk, *boxes), InPlace(), owner);
      return Read(chunk, boxes->Of(w_.rank_), &*gathering);
    }));
    QUARRY_RETURN_IF_ERROR(AgreeOnChanges(chunk, *gathering));
  }
  const MovingTimer timer(&w_.seconds_, Phase::kExchange, *threads_);
  return gathering->Exchange(w_.comm_, &*redistribution_);
}

Status DatasetWriter::FieldRun::Read(const Chunk& chunk, const std::vector<Box>& boxes,
                                     PatchGathering* gathering) {
  return LoadBoxes(boxes, [&](std::size_t number, const Box& box, const BoxView& view) -> Status {
    QUARRY_RETURN_IF_ERROR(threads_->status());
    if (wider_) return RoundAndAdd(chunk, number, box, view, gathering);
    gathering->Add(number, Translate(box, chunk.samples().begin), view);
    return Status::Ok();
  });
}

Status DatasetWriter::FieldRun::RoundAndAdd(const Chunk& chunk, std::size_t number, const Box& box,
                                            const BoxView& view, PatchGathering* gathering) {
  Float32Rounding rounding(field_, wider_->fill);
  const Index3& origin = chunk.samples().begin;
  for (const Box& piece : CutToPieces(box, sizeof(double), kPieceBytes, {1, 1, 1})) {
    const BoxView part{redistribute::FirstSample(view, box, piece), view.stride};
    const Box in_chunk = Translate(piece, origin);
    rounded_.resize(static_cast<std::size_t>(piece.volume()));
    QUARRY_RETURN_IF_ERROR(rounding.Round(part, in_chunk, chunk.grid(), origin, &changes_, rounded_));
    gathering->Add(number, in_chunk, BoxView::Dense(rounded_.data(), in_chunk, sizeof(float)));
  }
  return Status::Ok();
}

Result<std::vector<distribution::NumberLetter>> DatasetWriter::FieldRun::SendChanges(
    const PatchGathering& gathering) {
  using distribution::NumberLetter;
  QUARRY_ASSIGN_OR_RETURN(std::vector<NumberLetter> letters, OnEveryRank(w_.comm_, [&] {
                            std::vector<NumberLetter> written;
                            for (const redistribute::Part& part : gathering.sends()) {
                              const auto change = changes_.find(static_cast<std::int64_t>(part.needed_box));
                              if (change == changes_.end() || change->second == 0) continue;
                              distribution::AddNumber(
                                  part.target, 0,
                                  {part.needed_box, std::bit_cast<std::uint64_t>(change->second)}, &written);
                            }
                            return Result<std::vector<NumberLetter>>(std::move(written));
                          }));
  return ExchangeNumbers({w_.comm_, &w_.exchanges_}, std::move(letters));
}

Status DatasetWriter::FieldRun::AgreeOnChanges(const Chunk& chunk, const PatchGathering& gathering) {
  if (!wider_) return Status::Ok();
  QUARRY_ASSIGN_OR_RETURN(const std::vector<distribution::NumberLetter> letters, SendChanges(gathering));
  constexpr double kNone = std::numeric_limits<double>::infinity();
  QUARRY_ASSIGN_OR_RETURN(const double mine, OnEveryRank(w_.comm_, [&]() -> Result<double> {
                            for (const distribution::NumberLetter& letter : letters) {
                              for (std::size_t i = 0; i < letter.count(); ++i) {
                                double& change =
                                    changes_[static_cast<std::int64_t>(letter.at(i).curve_position)];
                                change = std::max(change, std::bit_cast<double>(letter.at(i).number));
                              }
                            }
                            double lowest = kNone;
                            for (const auto& [patch, change] : changes_) {
                              if (gathering.Encodes(patch) && ChangesTooMuch(tolerances_.back(), change))
                                lowest = std::min(lowest, static_cast<double>(patch));
                            }
                            return lowest;
                          }));
  // The error is that of the first such patch, whatever the ranks.
  QUARRY_ASSIGN_OR_RETURN(const double first, MinOverRanks(w_.comm_, mine));
  Status status;
  if (mine == first && first < kNone) {
    const auto patch = static_cast<std::int64_t>(first);
    const Index3& origin = chunk.samples().begin;
    const Box box = Translate(chunk.grid().PatchBox(patch), {-origin[0], -origin[1], -origin[2]});
    status = ChangeRefusal(field_, box, changes_[patch], tolerances_.back());
  }
  return redistribute::AgreeOnStatus(w_.comm_, status);
}

void DatasetWriter::FieldRun::Take(const Chunk& chunk, PatchSamples patch) {
  if (const auto change = changes_.find(patch.patch_index); change != changes_.end())
    patch.change = change->second;
  patch.patch_index = chunk.IndexInWhole(patch.patch_index);
  if (ChangesTooMuch(tolerances_.back(), patch.change)) {
    threads_->Release(patch.samples.size());
  } else {
    threads_->Submit(std::move(patch));
  }
}

redistribute::PatchSchedule DatasetWriter::FieldRun::Place(const Chunk& chunk,
                                                           const distribution::RankBoxes& boxes) {
  const distribution::BoxesInRegion owned(boxes, chunk.samples(), chunk.samples().begin);
  const std::vector<std::int64_t> target =
      distribution::NextTargetCounts(w_.patches_per_rank_, chunk.grid().patch_count());
  redistribute::PatchScheduler scheduler(chunk.grid(), owned, w_.rank_);
  distribution::ForEachPlacement(chunk.grid(), owned, w_.options_.placement, target,
                                 [&](const distribution::PlacedPatch& placed) {
                                   scheduler.Add(placed);
                                   ++w_.patches_per_rank_[static_cast<std::size_t>(placed.rank)];
                                 });
  return std::move(scheduler).Finish();
}

}  // namespace quarry::writer
