#pragma once

#include <cstdint>

#include "quarry/query/read_plan.h"

/// Which encoding brings an answer first: bytes, the path, and the work of both ends. Constants and their
/// sources: docs/decisions/encoding-choice.md.
namespace quarry::query {

/// [bytes] Estimate of a coded answer, without a wish for an error beside that of the target: as many bits
/// for each sample as the stored payload has, and those of the error that coding does not add.
/// @param plan  with its levels
std::uint64_t CodedBytes(const ReadPlan& plan);

/// [bytes/s] The rate at which two programs of one machine copy an answer through gRPC. No path is faster.
inline constexpr double kFastest = 2.5e9;
/// [bytes/s] The same with TLS, which each end computes.
inline constexpr double kFastestWithTls = 0.9e9;

/// Both ends of an answer, and the path between them.
struct Ends {
  Path path;
  int threads = 1;         ///< threads of the server that decode
  double decoded = 0;      ///< share of the work of decoding that the server need not do
  bool as_patches = true;  ///< whether the client can take stored patches
  bool as_tiles = true;    ///< whether the server has the memory that coding takes
};

/// The encoding with which an answer is complete first, and the times of all that are possible. Another
/// than samples has to save a twentieth: the patches of samples stay decoded for the next reader. Only where
/// the target is an error, coding may add to that of the stored samples, see CodedErrors.
EncodingChoice ChooseEncoding(const ReadPlan& plan, const Ends& ends);

/// Whether a path is inside a machine or a rack.
bool IsNear(const Path& path);

/// A path with a rate: the usual one for its round trip, if none is known.
Path WithRate(Path path);

/// [s] from the first byte of an answer to the last. On a path with a rate.
double TransferSeconds(std::uint64_t bytes, const Path& path);

/// The rate of a path after an answer came over it. The bytes bound it from below; from above only time that
/// neither a growing window of TCP nor the work of the ends explains.
/// @param elapsed  [s] from the first byte to the last
/// @param waited   [s] of them in which the client had nothing to do
/// @param work     [s] estimate of what the ends compute
double RateAfter(const Path& path, std::uint64_t bytes, double elapsed, double waited, double work);

}  // namespace quarry::query
