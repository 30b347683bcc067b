// Exchange and agreement over real ranks: every rank checks its own patches against the expected samples.
#include "writer/pipeline/exchange.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "writer/distribution/decomposition.h"
#include "writer/pipeline/chunks.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/mail.h"
#include "writer/redistribute/copy_part.h"

namespace quarry::writer {
namespace {

/// Every sample encodes its own position, so that a misplaced one shows.
float SampleAt(const Index3& dims, std::int64_t x, std::int64_t y, std::int64_t z) {
  return static_cast<float>(x + dims[0] * (y + dims[1] * z));
}

Bytes SamplesOf(const Box& box, const Index3& dims) {
  Bytes bytes;
  for (auto z = box.begin[2]; z < box.end[2]; ++z) {
    for (auto y = box.begin[1]; y < box.end[1]; ++y) {
      for (auto x = box.begin[0]; x < box.end[0]; ++x) PutLittleEndian(&bytes, SampleAt(dims, x, y, z));
    }
  }
  return bytes;
}

/// A piece that does not last is overwritten when the next one comes.
void AddPiece(const Box& box, const BoxView& view, std::size_t number, const Box& piece, bool lasting,
              PatchGathering* gathering) {
  if (lasting) return gathering->Add(number, piece, view);
  Bytes samples(static_cast<std::size_t>(piece.volume()) * sizeof(float));
  redistribute::CopyPart(view, box, redistribute::MutableBoxView::Dense(samples.data(), piece, sizeof(float)),
                         piece, piece, sizeof(float));
  gathering->Add(number, piece, BoxView::Dense(samples.data(), piece, sizeof(float)));
  std::fill(samples.begin(), samples.end(), std::byte{0xff});
}

/// Before the exchange, exactly the patches that lie in the boxes of their rank are whole.
Status CheckContained(const PatchGrid& grid, const distribution::Ownership& owned,
                      const distribution::Placement& placement, const std::vector<PatchSamples>& patches) {
  const int rank = Rank(MPI_COMM_WORLD);
  std::size_t contained = 0;
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    if (placement[static_cast<std::size_t>(p)] != rank) continue;
    std::int64_t here = 0;
    for (const Box& box : owned[static_cast<std::size_t>(rank)])
      here += Intersect(box, grid.PatchBox(p)).volume();
    if (here == grid.PatchBox(p).volume()) ++contained;
  }
  return patches.size() == contained
             ? Status::Ok()
             : InternalError("{} patches are whole early instead of {}", patches.size(), contained);
}

Status CheckExchange(const Index3& dims, const Index3& patch, const distribution::Ownership& owned,
                     distribution::PlacementStrategy strategy, ExchangeBatch batch, bool lasting) {
  const int rank = Rank(MPI_COMM_WORLD);
  const PatchGrid grid = *PatchGrid::Create(dims, patch);
  const distribution::Placement placement = distribution::PlacePatches(
      grid, owned, strategy, distribution::TargetCounts(grid.patch_count(), Size(MPI_COMM_WORLD)));
  std::vector<Bytes> samples;
  std::vector<BoxView> views;
  for (const Box& box : owned[static_cast<std::size_t>(rank)]) {
    samples.push_back(SamplesOf(box, dims));
    views.push_back(BoxView::Dense(samples.back().data(), box, sizeof(float)));
  }
  std::vector<PatchSamples> patches;
  std::uint64_t reserved = 0;
  const distribution::ListedBoxes boxes(owned);
  redistribute::PatchScheduler scheduler(grid, boxes, rank);
  distribution::ForEachPlacement(grid, boxes, strategy,
                                 distribution::TargetCounts(grid.patch_count(), Size(MPI_COMM_WORLD)),
                                 [&](const distribution::PlacedPatch& placed) { scheduler.Add(placed); });
  PatchGathering gathering(grid, DataType::kFloat32, std::move(scheduler).Finish(), lasting,
                           {[&](std::uint64_t bytes) { reserved += bytes; },
                            [&](PatchSamples patch) { patches.push_back(std::move(patch)); }});
  const std::vector<Box>& mine = owned[static_cast<std::size_t>(rank)];
  for (std::size_t b = 0; b < mine.size(); ++b) {
    // 200 bytes: some planes, or some rows of one.
    const std::vector<Box> pieces =
        lasting ? std::vector{mine[b]} : CutToPieces(mine[b], sizeof(float), 200, {1, 1, 1});
    for (const Box& piece : pieces) AddPiece(mine[b], views[b], b, piece, lasting, &gathering);
  }
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(MPI_COMM_WORLD, CheckContained(grid, owned, placement, patches)));
  const redistribute::Description description{dims, sizeof(float), redistribute::Method::kPointToPoint,
                                              batch};
  QUARRY_ASSIGN_OR_RETURN(auto redistribution,
                          redistribute::Redistribution::Describe(MPI_COMM_WORLD, description));
  QUARRY_RETURN_IF_ERROR(gathering.Exchange(MPI_COMM_WORLD, &redistribution));
  std::size_t expected = 0;
  for (const int owner : placement) expected += owner == rank ? 1 : 0;
  if (patches.size() != expected) return InternalError("{} patches instead of {}", patches.size(), expected);
  for (const PatchSamples& received : patches) {
    reserved -= received.samples.size();
    if (received.samples != SamplesOf(grid.PatchBox(received.patch_index), dims)) {
      return InternalError("patch {} of {} has wrong samples", received.patch_index, ToString(dims));
    }
  }
  return reserved == 0 ? Status::Ok() : InternalError("{} bytes too many are reserved", reserved);
}

/// The n-th letter from one rank to another, of any length.
Bytes LetterBetween(int source, int target, int n) {
  Bytes head;
  for (const int number : {source, target, n}) PutLittleEndian(&head, number);
  head.resize(head.size() + static_cast<std::size_t>(1000 * n), std::byte{7});
  return head;
}

/// None, one or two letters between each two ranks, and from a rank to itself.
Status CheckLetters() {
  const int rank = Rank(MPI_COMM_WORLD);
  const int ranks = Size(MPI_COMM_WORLD);
  const auto between = [](int source, int target) { return (source + target) % 3; };
  std::vector<Letter> letters;
  for (int target = ranks - 1; target >= 0; --target) {
    for (int n = 0; n < between(rank, target); ++n)
      letters.push_back({target, Message::WithHead(LetterBetween(rank, target, n))});
  }
  QUARRY_ASSIGN_OR_RETURN(const std::vector<Letter> arrived,
                          ExchangeLetters(MPI_COMM_WORLD, 5, std::move(letters)));
  std::size_t next = 0;
  for (int source = 0; source < ranks; ++source) {
    for (int n = 0; n < between(source, rank); ++n, ++next) {
      if (next == arrived.size()) return InternalError("{} letters have arrived, too few", next);
      const Bytes expected = LetterBetween(source, rank, n);
      if (arrived[next].peer != source || !std::ranges::equal(arrived[next].message.head(), expected))
        return InternalError("letter {} is not number {} of rank {}", next, n, source);
    }
  }
  return next == arrived.size() ? Status::Ok()
                                : InternalError("{} letters instead of {}", arrived.size(), next);
}

Status CheckAgreement() {
  const int last = Size(MPI_COMM_WORLD) - 1;
  if (!AgreeOnStatus(MPI_COMM_WORLD, Status::Ok()).ok())
    return InternalError("agreement on success is an error");
  const Status local = Rank(MPI_COMM_WORLD) == last ? DataLoss("only here") : Status::Ok();
  const Status agreed = AgreeOnStatus(MPI_COMM_WORLD, local);
  const std::string expected = last == 0 ? "only here" : fmt::format("rank {}: only here", last);
  if (agreed.code() != StatusCode::kDataLoss || agreed.message() != expected)
    return InternalError("agreed on \"{}\"", agreed.message());
  return Status::Ok();
}

/// Slabs and single planes as read from files, and blocks as in simulations; all leave some ranks without
/// data.
Status CheckBoxes(const Index3& dims, distribution::PlacementStrategy strategy, ExchangeBatch batch,
                  bool lasting) {
  const int ranks = Size(MPI_COMM_WORLD);
  for (const auto order :
       {distribution::ReadingOrder::kConsecutive, distribution::ReadingOrder::kRoundRobin}) {
    const auto owned = distribution::ReadingOwnership({{0, 0, 0}, dims}, {1, 1, 1}, ranks, order);
    QUARRY_RETURN_IF_ERROR(CheckExchange(dims, {8, 8, 8}, owned, strategy, batch, lasting));
  }
  const auto blocks = distribution::OneBoxEach(distribution::ProcessGridBoxes(dims, {ranks, 1, 1}));
  return CheckExchange(dims, {4, 16, 2}, blocks, strategy, batch, lasting);
}

Status RunAll() {
  for (const Index3& dims : {Index3{37, 22, 13}, Index3{5, 1, 1}, Index3{64, 64, 1}, Index3{9, 9, 9}}) {
    for (const auto strategy :
         {distribution::PlacementStrategy::kBalanced, distribution::PlacementStrategy::kGreedy}) {
      for (const ExchangeBatch batch : {kExchangePerPatch, kExchangePerRank, ExchangeBatch{3}}) {
        for (const bool lasting : {true, false})
          QUARRY_RETURN_IF_ERROR(CheckBoxes(dims, strategy, batch, lasting));
      }
    }
  }
  QUARRY_RETURN_IF_ERROR(CheckLetters());
  return CheckAgreement();
}

}  // namespace
}  // namespace quarry::writer

int main(int argc, char** argv) {
  const quarry::writer::MpiSession mpi(&argc, &argv);
  const quarry::Status status = quarry::writer::AgreeOnStatus(MPI_COMM_WORLD, quarry::writer::RunAll());
  if (!status.ok() && quarry::writer::Rank(MPI_COMM_WORLD) == 0)
    std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
