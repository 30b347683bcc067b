#include "quarry/dataset/read_payload.h"

#include <algorithm>
#include <utility>

#include "quarry/dataset/batch_under_way.h"
#include "quarry/query/fetch.h"

namespace quarry {
namespace {

using query::Batch;
using query::Pass;
using query::PlannedPatch;
using query::ReadPlan;

/// Payload that is read at a time: a batch if there is much memory, otherwise a small part of it, but at
/// least what one patch needs.
std::uint64_t ChunkBytes(const ReadPlan& plan, std::uint64_t total) {
  constexpr std::uint64_t kPartOfMemory = 1024;
  const std::uint64_t bytes =
      std::min({query::kBatchPayloadBytes, total / kPartOfMemory, plan.cost.bytes_read});
  return std::max(bytes, plan.totals.largest_payload);
}

/// Whether the next batch is begun before this one is passed on.
bool ReadsAhead(const ReadCosts& costs) { return costs.bytes_under_way() > 0; }

/// Reads payload batch by batch and passes it on.
class PayloadExecution {
 public:
  PayloadExecution(const Dataset& dataset, const ReadPlan& plan, PatchStore* store,
                   const Requester& requester, PayloadSink* sink, PayloadDamages* damages, ReadUsage* usage)
      : plan_(plan),
        chunk_(ChunkBytes(plan, store->state().total)),
        reads_ahead_(ReadsAhead(dataset.root().storage->costs())),
        requester_(requester),
        sink_(sink),
        source_(dataset, plan, usage),
        damages_(damages) {}

  Status Run(const query::Position& from) {
    const std::vector<Pass> passes = query::MakePasses(plan_);
    for (std::size_t p = from.pass; p < std::min(passes.size(), from.end_pass); ++p) {
      const std::size_t first = p == from.pass ? from.patch : 0;
      const std::vector<Batch>& batches = passes[p].batches;
      for (std::size_t b = 0; b < batches.size(); ++b) {
        if (batches[b].end() <= first) continue;
        next_.reset();
        if (b + 1 < batches.size()) next_ = {batches[b + 1].first_patch, batches[b + 1].end()};
        QUARRY_RETURN_IF_ERROR(
            Deliver(passes[p], {std::max(first, batches[b].first_patch), batches[b].end()}));
      }
      QUARRY_RETURN_IF_ERROR(sink_->LevelEnd(plan_.levels[p]));
    }
    return Status::Ok();
  }

 private:
  using Range = std::pair<std::size_t, std::size_t>;

  /// Halves a range until its payload is undamaged and fits into a chunk.
  Status Deliver(const Pass& pass, Range range) {
    if (requester_.cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
    const bool single = range.second - range.first == 1;
    const bool begun = ahead_ && ahead_->range == range;
    std::optional<query::Fetch> fetch;
    if (!begun) fetch = FetchOf(pass, range);
    if (!begun && !single && fetch->bytes() > chunk_) {
      fetch.reset();  // one such plan at a time, however deep the halves go
      return DeliverHalves(pass, range);
    }
    const auto batch = begun ? TakeAhead() : Read(*std::exchange(fetch, std::nullopt));
    if (batch.status().code() == StatusCode::kDataLoss)
      return single ? DeliverBest(pass, range.first, batch.status()) : DeliverHalves(pass, range);
    QUARRY_RETURN_IF_ERROR(batch.status());
    BeginAhead(pass);
    for (std::size_t piece = 0; piece < (*batch)->fetch.pieces.size(); ++piece)
      QUARRY_RETURN_IF_ERROR(DeliverPiece(pass, *batch, piece));
    return Status::Ok();
  }

  /// Number of a patch of the plan in its grid.
  std::uint64_t IndexOf(std::size_t patch) const { return plan_.patches[patch].entry.patch.patch_index; }

  query::Fetch FetchOf(const Pass& pass, Range range) const {
    std::vector<query::Piece> pieces;
    pieces.reserve(range.second - range.first);
    for (std::size_t i = range.first; i < range.second; ++i) {
      query::Piece piece = pass.PieceOf(i, plan_.patches[i]);
      const auto known = damages_->find(IndexOf(i));
      if (pass.first_layer > 0 && known != damages_->end())
        piece.finest = std::max(piece.finest, known->second.level);
      pieces.push_back(piece);
    }
    return query::PlanFetch(plan_, std::move(pieces), pass.layer);
  }

  /// A patch of which not all can be read: what is left of the finest level of which something is, in as many
  /// layers as possible.
  Status DeliverBest(const Pass& pass, std::size_t index, const Status& damage) {
    if (pass.first_layer > 0)
      return Send(pass, {pass.finest, pass.first_layer, index, &plan_.patches[index], {}, true, nullptr},
                  damage);
    for (int finest = pass.finest; finest <= pass.coarsest; ++finest) {
      for (int layers = LayersLeft(index); layers > 0; --layers) {
        const Result<std::shared_ptr<FetchedPayload>> batch =
            Read(query::PlanFetch(plan_, {{index, pass.coarsest, finest}}, layers - 1));
        if (batch.status().code() == StatusCode::kDataLoss) continue;
        QUARRY_RETURN_IF_ERROR(batch.status());
        Status what = damage;
        const StoredPayload payload = TakePiece(pass, *batch, 0, &what);
        if (!payload.levels.empty() && payload.levels.back().level == finest)
          return Send(pass, payload, what);
        break;  // the first layer of a level is damaged: a coarser one may have more layers
      }
    }
    return Send(pass, {pass.finest, 0, index, &plan_.patches[index], {}, true, nullptr}, damage);
  }

  Result<std::shared_ptr<FetchedPayload>> Read(query::Fetch fetch) {
    QUARRY_ASSIGN_OR_RETURN(BatchAhead begun, Begin({}, std::move(fetch)));
    QUARRY_RETURN_IF_ERROR(begun.reading->Wait(requester_.cancelled));
    return std::move(begun.batch);
  }

  /// A batch that is being read.
  struct BatchAhead {
    Range range;
    std::shared_ptr<FetchedPayload> batch;
    std::unique_ptr<BatchUnderWay> reading;
  };

  Result<BatchAhead> Begin(Range range, query::Fetch fetch) {
    auto batch = std::make_shared<FetchedPayload>();
    batch->fetch = std::move(fetch);
    auto reading = std::make_unique<BatchUnderWay>(batch, nullptr, DecodePriority{}, /*held=*/true);
    QUARRY_RETURN_IF_ERROR(reading->Begin(&source_, requester_.cancelled));
    return BatchAhead{range, std::move(batch), std::move(reading)};
  }

  /// Begins the next batch of the pass, where a storage answers late. An error comes again.
  void BeginAhead(const Pass& pass) {
    if (!reads_ahead_ || !next_ || ahead_) return;
    const Range range = *std::exchange(next_, std::nullopt);
    query::Fetch fetch = FetchOf(pass, range);
    if (fetch.bytes() > chunk_) return;
    if (auto begun = Begin(range, std::move(fetch)); begun.ok()) ahead_ = *std::move(begun);
  }

  Result<std::shared_ptr<FetchedPayload>> TakeAhead() {
    const BatchAhead taken = *std::exchange(ahead_, std::nullopt);
    QUARRY_RETURN_IF_ERROR(taken.reading->Wait(requester_.cancelled));
    return taken.batch;
  }

  Status DeliverHalves(const Pass& pass, Range range) {
    const std::size_t middle = (range.first + range.second) / 2;
    QUARRY_RETURN_IF_ERROR(Deliver(pass, {range.first, middle}));
    return Deliver(pass, {middle, range.second});
  }

  /// Layers that the levels of a patch up to now have undamaged; 0: finer ones are useless.
  int LayersLeft(std::size_t patch) const {
    const auto known = damages_->find(IndexOf(patch));
    if (known == damages_->end()) return plan_.query.layer + 1;
    return known->second.ends ? 0 : known->second.layers;
  }

  Status DeliverPiece(const Pass& pass, const std::shared_ptr<FetchedPayload>& batch, std::size_t index) {
    if (requester_.cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
    Status damage;
    const StoredPayload payload = pass.first_layer > 0 ? TakeLayer(pass, batch, index, &damage)
                                                       : TakePiece(pass, batch, index, &damage);
    return Send(pass, payload, damage);
  }

  /// The undamaged payload of a piece.
  /// @param[in,out] damage  known damage, in what the piece lacks; that of earlier levels comes first
  StoredPayload TakePiece(const Pass& pass, const std::shared_ptr<FetchedPayload>& batch, std::size_t index,
                          Status* damage) {
    const query::Piece& piece = batch->fetch.pieces[index];
    if (const auto known = damages_->find(IndexOf(piece.patch)); known != damages_->end())
      *damage = known->second.what;
    StoredPayload payload{pass.finest, 0, piece.patch, &plan_.patches[piece.patch], {}, false, batch};
    int layers = std::min(LayersLeft(piece.patch), batch->fetch.layers);
    for (int level = piece.coarsest; level >= piece.finest && layers > 0; --level) {
      const LevelPayload taken = Take(*batch, index, level, layers, damage);
      layers = taken.layers;
      if (layers > 0) payload.levels.push_back(taken);
    }
    payload.damaged = layers == 0 || piece.finest > pass.finest;
    return payload;
  }

  /// The same of a piece of one further layer, which is of no use in part, nor without the layers before.
  /// Where finer levels are damaged, it refines the finest that is not.
  StoredPayload TakeLayer(const Pass& pass, const std::shared_ptr<FetchedPayload>& batch, std::size_t index,
                          Status* damage) {
    const query::Piece& piece = batch->fetch.pieces[index];
    StoredPayload payload{pass.finest, pass.first_layer, piece.patch, &plan_.patches[piece.patch], {}, true,
                          batch};
    if (const auto known = damages_->find(IndexOf(piece.patch)); known != damages_->end()) {
      *damage = known->second.what;
      if (known->second.layers < pass.layer) return payload;
    }
    std::vector<LevelPayload> levels;
    for (int level = piece.coarsest; level >= piece.finest; --level) {
      const Result<LevelPayload> taken =
          TakePayload(*batch, index, level, pass.layer + 1, plan_.parts, plan_.patches[piece.patch]);
      if (!taken.ok() && damage->ok()) *damage = taken.status();
      if (!taken.ok()) return payload;
      levels.push_back(*taken);
    }
    payload.levels = std::move(levels);
    payload.damaged = false;
    return payload;
  }

  /// A level of a piece, in as many layers as are undamaged; of none if the first is damaged.
  LevelPayload Take(const FetchedPayload& batch, std::size_t index, int level, int layers, Status* damage) {
    const PlannedPatch& patch = plan_.patches[batch.fetch.pieces[index].patch];
    for (; layers > 0; --layers) {
      const Result<LevelPayload> taken = TakePayload(batch, index, level, layers, plan_.parts, patch);
      if (taken.ok()) return *taken;
      if (damage->ok()) *damage = taken.status();
    }
    return {};
  }

  /// A damaged patch is an error if nothing of it can be shown, or damage is not allowed.
  Status Send(const Pass& pass, const StoredPayload& payload, const Status& damage) {
    const bool shows_nothing =
        payload.levels.empty() && payload.first_layer == 0 && payload.level == plan_.levels.front().level;
    if (!damage.ok() && (!plan_.query.allow_damage || shows_nothing)) return damage;
    if (!damage.ok()) {
      sink_->Damaged(damage);
      Remember(pass, payload, damage);
    }
    return sink_->Deliver(payload);
  }

  void Remember(const Pass& pass, const StoredPayload& payload, const Status& what) {
    const bool further = pass.first_layer > 0;
    const PayloadDamage before{what, further ? pass.finest : pass.coarsest + 1,
                               pass.layer + (further ? 0 : 1), true};
    PayloadDamage& damage = damages_->try_emplace(IndexOf(payload.patch), before).first->second;
    if (!further) damage.ends = payload.damaged;
    if (payload.levels.empty()) return;
    damage.level = payload.levels.back().level;
    damage.layers = further ? pass.layer + 1 : payload.levels.back().layers;
  }

  const ReadPlan& plan_;
  const std::uint64_t chunk_;
  const bool reads_ahead_;
  const Requester& requester_;
  PayloadSink* sink_;
  PayloadSource source_;
  PayloadDamages* const damages_;
  std::optional<Range> next_;        ///< the batch behind the one that is delivered, in its pass
  std::optional<BatchAhead> ahead_;  ///< destroyed first: it uses the others
};

}  // namespace

Status ExecutePayloads(const Dataset& dataset, const ReadPlan& plan, ReadEngine* engine,
                       const Requester& requester, PayloadSink* sink, const query::Position& from,
                       PayloadDamages* damages, ReadUsage* usage) {
  return PayloadExecution(dataset, plan, engine->store.get(), requester, sink, damages, usage).Run(from);
}

std::uint64_t PayloadMemory(const ReadPlan& plan, std::uint64_t total, const ReadCosts& costs) {
  return (ReadsAhead(costs) ? 3 : 2) * ChunkBytes(plan, total);
}

}  // namespace quarry
