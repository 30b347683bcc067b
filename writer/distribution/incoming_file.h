#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

/// How the patches of a subfile reach the rank that writes it. Pure functions, as in placement.h.
namespace quarry::distribution {

/// Consecutive patches of a rank, among those that it has in a file, that lie in one window.
struct WindowShare {
  std::uint32_t window = 0;
  std::uint32_t patches = 0;

  friend bool operator==(const WindowShare&, const WindowShare&) = default;
};

/// A subfile on its aggregator: which rank has which of its patches, and the windows in which they come.
/// Ranks announce their patches; each then learns in which windows these travel.
class IncomingFile {
 public:
  /// @param begin, end  curve positions of its patches
  IncomingFile(std::uint64_t begin, std::uint64_t end);

  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return begin_ + encoder_.size(); }

  /// @param bytes  stored, of the patch
  /// @returns      whether the patch belongs to the file and was not announced before
  bool Announce(int encoder, std::uint64_t curve_position, std::uint64_t bytes);
  /// Whether every patch has been announced.
  bool complete() const { return announced_ == encoder_.size(); }

  /// [bytes] of all patches that were announced.
  std::uint64_t bytes() const { return bytes_; }

  /// Cuts the file into windows of at most so many bytes; a larger patch is one of its own. All patches are
  /// announced; their sizes are dropped.
  void CutWindows(std::uint64_t most_bytes);
  std::size_t windows() const { return window_begin_.size() - 1; }
  /// The window is [WindowBegin(window), WindowBegin(window + 1)) of the curve positions.
  std::uint64_t WindowBegin(std::size_t window) const { return window_begin_[window]; }

  int EncoderOf(std::uint64_t curve_position) const { return encoder_[curve_position - begin_]; }
  /// The ranks with patches in a window, ascending.
  std::vector<int> EncodersIn(std::size_t window) const;
  /// By rank with patches in the file: where these travel, in the order of the curve.
  std::map<int, std::vector<WindowShare>> Shares() const;
  /// Memory until CutWindows.
  static constexpr std::uint64_t BytesFor(std::uint64_t patches) {
    return patches * (sizeof(int) + sizeof(std::uint64_t));
  }

 private:
  std::uint64_t begin_;
  std::uint64_t announced_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<int> encoder_;          ///< kNobody until announced
  std::vector<std::uint64_t> sizes_;  ///< until CutWindows
  std::vector<std::uint64_t> window_begin_;
};

/// A message of patches to the aggregator of a file.
struct Shipment {
  std::uint64_t round = 0;  ///< a file has one window and run of parts in each
  std::size_t file = 0;
  std::size_t run = 0;    ///< number among format::PartRuns
  std::size_t first = 0;  ///< the patches are [first, first + count) of those of the rank
  std::size_t count = 0;
};

/// Messages of a rank for one file: for each run of parts its windows in turn.
/// @param first    number of the rank's first patch in the file
/// @param windows  of the file
void AddShipments(std::size_t file, std::size_t first, std::size_t runs, std::uint64_t windows,
                  std::span<const WindowShare> shares, std::vector<Shipment>* shipments);

/// By round, then by file: the order in which all ranks send and receive.
void SortShipments(std::vector<Shipment>* shipments);

}  // namespace quarry::distribution
