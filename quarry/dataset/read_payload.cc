#include "quarry/dataset/read_payload.h"

#include <algorithm>
#include <deque>
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
std::uint64_t ChunkBytes(const ReadPlan& plan, const ReadEngine& engine) {
  const std::uint64_t bytes = std::min(
      {query::kBatchPayloadBytes, engine.store->state().total / engine.payload_part, plan.cost.bytes_read});
  return std::max(bytes, plan.totals.largest_payload);
}

/// Whether the batches behind one are begun before it has come.
bool ReadsAhead(const ReadCosts& costs) { return costs.bytes_under_way() > 0; }

/// Reads payload batch by batch and passes it on.
class PayloadExecution {
 public:
  PayloadExecution(const Dataset& dataset, const ReadPlan& plan, const ReadEngine& engine,
                   const Requester& requester, PayloadSink* sink, PayloadDamages* damages, ReadUsage* usage)
      : plan_(plan),
        chunk_(ChunkBytes(plan, engine)),
        reads_ahead_(ReadsAhead(dataset.root().storage->costs())),
        requester_(requester),
        sink_(sink),
        source_(dataset, plan, usage),
        damages_(damages) {}

  Status Run(const query::Position& from) {
    const std::vector<Pass> passes = query::MakePasses(plan_);
    const std::size_t end_pass = std::min(passes.size(), from.end_pass);
    for (std::size_t p = from.pass; p < end_pass; ++p) {
      const std::size_t first = p == from.pass ? from.patch : 0;
      for (const Batch& batch : passes[p].batches) {
        if (batch.end() <= first) continue;
        to_come_.push_back({&passes[p], {std::max(first, batch.first_patch), batch.end()}, batch.payload});
      }
    }
    for (std::size_t p = from.pass; p < end_pass; ++p) {
      while (!to_come_.empty() && to_come_.front().pass == &passes[p]) {
        const Range range = to_come_.front().range;
        to_come_.pop_front();
        QUARRY_RETURN_IF_ERROR(Deliver(passes[p], range));
      }
      QUARRY_RETURN_IF_ERROR(sink_->LevelEnd(plan_.levels[p]));
    }
    return Status::Ok();
  }

 private:
  using Range = std::pair<std::size_t, std::size_t>;

  /// A batch that is delivered later.
  struct ToCome {
    const Pass* pass;
    Range range;
    std::uint64_t payload;  ///< [bytes] that it has at most, without gaps
  };

  /// Halves a range until its payload is undamaged and fits into a chunk.
  Status Deliver(const Pass& pass, Range range) {
    if (requester_.cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
    const bool single = range.second - range.first == 1;
    const bool begun = !ahead_.empty() && ahead_.front().pass == &pass && ahead_.front().range == range;
    std::optional<query::Fetch> fetch;
    if (!begun) fetch = FetchOf(pass, range);
    if (!begun && !single && fetch->bytes() > chunk_) {
      fetch.reset();  // one such plan at a time, however deep the halves go
      return DeliverHalves(pass, range);
    }
    const auto batch = begun ? TakeAhead(pass) : Read(pass, range, *std::exchange(fetch, std::nullopt));
    if (batch.status().code() == StatusCode::kDataLoss)
      return single ? DeliverBest(pass, range.first, batch.status()) : DeliverHalves(pass, range);
    QUARRY_RETURN_IF_ERROR(batch.status());
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
        const Result<std::shared_ptr<FetchedPayload>> batch = Read(
            pass, {index, index + 1}, query::PlanFetch(plan_, {{index, pass.coarsest, finest}}, layers - 1));
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

  /// A batch that is being read.
  struct BatchAhead {
    const Pass* pass;
    Range range;
    std::shared_ptr<FetchedPayload> batch;
    std::unique_ptr<BatchUnderWay> reading;
  };

  Result<std::shared_ptr<FetchedPayload>> Read(const Pass& pass, Range range, query::Fetch fetch) {
    QUARRY_ASSIGN_OR_RETURN(const BatchAhead begun, Begin(pass, range, std::move(fetch)));
    return Await(pass, begun);
  }

  Result<std::shared_ptr<FetchedPayload>> TakeAhead(const Pass& pass) {
    const BatchAhead taken = std::move(ahead_.front());
    ahead_.pop_front();
    return Await(pass, taken);
  }

  Result<std::shared_ptr<FetchedPayload>> Await(const Pass& pass, const BatchAhead& begun) {
    BeginAhead(pass);
    QUARRY_RETURN_IF_ERROR(begun.reading->Wait(requester_.cancelled));
    return begun.batch;
  }

  Result<BatchAhead> Begin(const Pass& pass, Range range, query::Fetch fetch) {
    auto batch = std::make_shared<FetchedPayload>();
    batch->fetch = std::move(fetch);
    auto reading = std::make_unique<BatchUnderWay>(batch, nullptr, DecodePriority{}, /*held=*/true);
    QUARRY_RETURN_IF_ERROR(reading->Begin(&source_, requester_.cancelled));
    return BatchAhead{&pass, range, std::move(batch), std::move(reading)};
  }

  /// Begins the batches behind the one that is read, of finer levels too, where a storage answers late: a
  /// chunk of bytes in all. An error comes again.
  void BeginAhead(const Pass& current) {
    while (reads_ahead_ && ahead_.size() < to_come_.size()) {
      const auto [pass, range, payload] = to_come_[ahead_.size()];
      // Damage of the layers before has to be known.
      if (pass->first_layer > 0 && pass != &current) return;
      std::uint64_t under_way = 0;
      for (const BatchAhead& begun : ahead_) under_way += begun.batch->fetch.bytes();
      if (under_way + payload > chunk_) return;
      query::Fetch fetch = FetchOf(*pass, range);
      if (under_way + fetch.bytes() > chunk_) return;
      auto begun = Begin(*pass, range, std::move(fetch));
      if (!begun.ok()) return;
      ahead_.push_back(*std::move(begun));
    }
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
  std::deque<ToCome> to_come_;    ///< behind the batch that is delivered
  std::deque<BatchAhead> ahead_;  ///< the first of these; destroyed first: it uses the others
};

}  // namespace

Status ExecutePayloads(const Dataset& dataset, const ReadPlan& plan, ReadEngine* engine,
                       const Requester& requester, PayloadSink* sink, const query::Position& from,
                       PayloadDamages* damages, ReadUsage* usage) {
  return PayloadExecution(dataset, plan, *engine, requester, sink, damages, usage).Run(from);
}

std::uint64_t PayloadMemory(const ReadPlan& plan, const ReadEngine& engine, const ReadCosts& costs) {
  return (ReadsAhead(costs) ? 3 : 2) * ChunkBytes(plan, engine);
}

}  // namespace quarry
