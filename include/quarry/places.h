#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/client.h"

namespace quarry::client {

/// Most samples of a field of coordinates: they are in memory, with about 20 bytes each.
inline constexpr std::uint64_t kMaxPlaces = std::uint64_t{64} << 20;

/// Where the samples of a field lie, for points that are given by positions: on its axes, or where two other
/// fields say, as longitudes and latitudes of a curvilinear grid: fields along the axes x and y that the
/// source marks as coordinates.
///
///   auto places = quarry::client::Places::Of(*dataset, "temp");
///   auto points = places->SampleCoordinatesOf(positions);       // longitude, latitude, depth
///   auto answer = dataset->ReadPoints({.field = "temp", .points = *points});
///
/// Immutable, and cheap to copy: copies share their coordinates. Safe from any number of threads.
class Places {
 public:
  Places() = default;  ///< for a field without coordinates: positions are sample coordinates

  /// Reads the fields with the coordinates, if there are any, at full resolution. A field that is not there
  /// has the places of Places(): reading it says so.
  /// @param step   of coordinates that change with time; left out: the first step that has the field
  /// @param known  of a field of the same dataset: coordinates that it has are not read again
  /// @errors those of Dataset::Read; kInvalidArgument, with all candidates: the fields with the coordinates
  /// are none or several; kResourceExhausted: beyond kMaxPlaces
  static Result<Places> Of(const Dataset& dataset, const std::string& field,
                           std::optional<std::uint64_t> step = {}, const CallOptions& call = {},
                           const Places& known = {});

  /// Level-0 sample coordinates, x, y, z, for PointsRequest.
  /// @param positions  x, y, z: in the units of the axes, and of the coordinates in place of x and y
  /// @errors kInvalidArgument: a point that lies nowhere among the samples of a curvilinear grid; others are
  /// refused when they are read. kCancelled
  Result<std::vector<query::Point>> SampleCoordinatesOf(std::span<const query::Point> positions,
                                                        const CancelToken& cancel = {}) const;

  /// [bytes] of the coordinates that were read.
  std::uint64_t bytes() const;

 private:
  struct State;

  std::shared_ptr<const State> state_;  ///< null: sample coordinates
};

}  // namespace quarry::client
