#pragma once

#include <mpi.h>

#include <functional>
#include <utility>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/data_type.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/pipeline_options.h"
#include "quarry/redistribute.h"
#include "writer/redistribute/patch_schedule.h"

namespace quarry::writer {

/// A whole patch on the rank that encodes it.
struct PatchSamples {
  std::int64_t patch_index = 0;
  Bytes samples;      ///< dense, x fastest, shape of the (cut) patch
  double change = 0;  ///< largest difference of a sample from its source, where it was rounded (rounding.h)
};

using redistribute::BoxView;

/// Whole patches of a region, from what each rank loads of it, piece by piece. What stays on a rank is copied
/// while it is at hand, and a patch that is contained in the boxes of its rank is whole with its last piece.
/// The others become whole in the exchange.
///
/// Every rank plans for itself from boxes and placement, without communication, and keeps only what concerns
/// it.
/// @source Fan et al., section IV.A; Robinson et al., Investigating Data Movement Strategies, section 3.2,
/// and its future work: contained patches first
class PatchGathering {
 public:
  /// Callbacks for the patches of a rank.
  struct Owner {
    std::function<void(std::uint64_t)> reserve;  ///< before the bytes of a patch are allocated
    std::function<void(PatchSamples)> take;      ///< a whole patch, by its index in the grid
  };

  /// @param grid      of the region
  /// @param schedule  of this rank
  /// @param lasting   whether the samples given to Add stay in place until the exchange is over: they are
  ///                  sent from there, and each box comes as one piece
  PatchGathering(const PatchGrid& grid, DataType type, redistribute::PatchSchedule schedule, bool lasting,
                 Owner owner);

  /// Takes a piece of a box of this rank. Local.
  /// @param box      number of the box among those of this rank
  /// @param piece    part of it; the pieces of a box are disjoint and cover it
  void Add(std::size_t box, const Box& piece, const BoxView& samples);

  /// Whether this rank encodes a patch.
  bool Encodes(std::int64_t patch) const;
  /// Parts that go to other ranks, by rank; needed_box is the patch. Until Exchange.
  const std::vector<redistribute::Part>& sends() const { return schedule_.sends; }

  /// Fetches the missing parts of this rank's patches, after every piece of every rank.
  /// @param redistribution  over the ranks, for samples of this type; its mapping is replaced
  /// @errors the same on every rank; kInternal: MPI, memory
  /// @collective
  Status Exchange(MPI_Comm comm, redistribute::Redistribution* redistribution);

 private:
  struct Target {
    PatchSamples patch;
    Box box;
    std::int64_t missing = 0;  ///< samples that pieces of this rank will bring
    bool shared = false;       ///< other ranks bring samples as well
  };

  /// A part that goes to another rank.
  struct Send {
    std::size_t box = 0;  ///< number of the box of this rank
    std::int64_t patch = 0;
    std::size_t number = 0;  ///< among the sends of the schedule

    friend auto operator<=>(const Send&, const Send&) = default;
  };

  /// Null for a patch of another rank.
  Target* FindTarget(std::int64_t patch);
  void AddToPatch(Target* target, const Box& piece, const BoxView& samples);
  void AddToSend(std::size_t send, const Box& piece, const BoxView& samples);
  void Allocate(Target* target);
  /// The boxes and messages of the exchange: the samples that this rank sends and receives, without those
  /// that it keeps.
  redistribute::RankSchedule TakeMessages();

  const PatchGrid& grid_;
  const std::size_t sample_bytes_;
  const bool lasting_;
  const Owner owner_;
  redistribute::RankSchedule schedule_;
  std::vector<Target> targets_;         ///< patches of this rank, by ascending index
  std::vector<BoxView> lasting_views_;  ///< views of the boxes, if lasting
  std::vector<Bytes> outgoing_;         ///< by number of the send; empty if lasting
  std::vector<Send> sends_;             ///< ascending; empty if lasting
};

}  // namespace quarry::writer
