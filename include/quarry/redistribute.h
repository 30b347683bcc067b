#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quarry/box.h"
#include "quarry/box_view.h"
#include "quarry/result.h"

namespace quarry::redistribute {

/// How samples travel.
enum class Method {
  /// kAlltoallw if at least half of the slots of its calls carry something: pairs of ranks that share samples
  /// in a round, over all rounds, are at least rounds * ranks * (ranks - 1) / 2. Otherwise kPointToPoint.
  /// Round i moves the i-th owned box of every rank.
  kAutomatic,
  kPointToPoint,  ///< non-blocking messages between the ranks that share samples
  kAlltoallw,     ///< one MPI_Alltoallw for each round
};

/// How many parts travel in one message of kPointToPoint.
using Batch = std::int64_t;
inline constexpr Batch kOnePerPart = 1;
inline constexpr Batch kOnePerRankPair = 0;

/// Settings of all ranks and all exchanges.
struct Description {
  Index3 dims{};                 ///< samples of the domain, x, y, z; 1 along axes that it does not have
  std::size_t sample_bytes = 0;  ///< bytes of one element of the arrays, of any fixed size
  Method method = Method::kAutomatic;
  Batch batch = kOnePerPart;  ///< parts in a message; kOnePerRankPair for all
};

/// Moves samples from the ranks that own them to the ranks that need them, in three calls: Describe once, Map
/// when boxes change, Exchange as often as there is new data.
///
///     auto redistribution = Redistribution::Describe(comm, {.dims = {8, 8, 1}, .sample_bytes =
///     sizeof(float)}); redistribution->Map({row_0, row_4}, {quadrant});
///     redistribution->Exchange(views_of_my_rows, views_of_my_quadrant);
///
/// Samples are moved from array to array in place: derived datatypes of MPI describe the parts on both sides.
/// Errors are the same Status on every rank, that of the lowest failing rank, and the communicator remains
/// usable; the library never aborts, and keeps no state outside its objects.
///
/// @threads one caller at a time; objects on different threads need MPI_THREAD_MULTIPLE
/// @source Marrinan et al., Automated Dynamic Data Redistribution, section III
class Redistribution {
 public:
  /// @param comm  duplicated: messages here never meet those of the caller
  /// @errors kInvalidArgument: a dimension below 1, no bytes in a sample, 2^63 bytes and more in the domain,
  /// a negative batch, or ranks with different descriptions
  /// @collective over `comm`
  static Result<Redistribution> Describe(MPI_Comm comm, const Description& description);

  /// Frees the communicator; collective, so all ranks must do it, before MPI_Finalize.
  ~Redistribution();
  Redistribution(Redistribution&&) noexcept;
  Redistribution& operator=(Redistribution&&) noexcept;

  /// @param owned   boxes of this rank: any number, none included. Those of all ranks cover the domain once.
  /// @param needed  boxes of this rank: any number, inside the domain; may overlap and leave gaps
  /// @errors kInvalidArgument, with the ranks and the box: a box outside the domain, owned boxes that
  /// overlap, a sample that no rank owns. The previous mapping is lost.
  /// @collective
  Status Map(const std::vector<Box>& owned, const std::vector<Box>& needed);

  /// Fills the needed boxes. Datatypes are reused while the views stay the same.
  /// @param owned   one view for each owned box, in the order of Map; ignored for empty boxes
  /// @param needed  one view for each needed box; memory that overlaps no other view
  /// @errors kFailedPrecondition before Map; kInvalidArgument: wrong number of views, or no memory for
  /// a box; kInternal: MPI. After kInternal the needed boxes have undefined samples.
  /// @collective
  Status Exchange(std::span<const BoxView> owned, std::span<const MutableBoxView> needed);

  /// Success if every rank brings success, else the error of the lowest failing rank: for callers that have
  /// errors of their own to agree on. @collective
  Status Agree(const Status& local) const;

  /// kPointToPoint or kAlltoallw: what Exchange uses.
  Method method() const;

  /// Messages that this rank sends in an Exchange, and in kAlltoallw the slots that carry something.
  std::int64_t messages_sent() const;

  /// Seconds of this rank in the last Exchange, from its first message until its own boxes are full and its
  /// own messages gone: without datatypes, checks, and the agreement in which it waits for the others.
  double seconds() const;

 private:
  friend class Schedules;
  struct State;
  explicit Redistribution(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace quarry::redistribute
