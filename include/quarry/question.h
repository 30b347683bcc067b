#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "quarry/box.h"
#include "quarry/data_type.h"

/// Questions to datasets and their answers, in the same terms for disk, network and clients.
namespace quarry::query {

/// Which level of which layer of accuracy.
struct LevelChoice {
  int level = 0;
  int layer = 0;

  friend bool operator==(const LevelChoice&, const LevelChoice&) = default;
};

/// The error that coding an answer may add to its samples, at most one of the two. Neither: none, but for the
/// room that WithinError leaves.
struct Recode {
  double factor = 1;  ///< at least 1: as much that the error of the samples is this times the stored one
  double error = 0;   ///< [unit of the field] from 0 on

  friend bool operator==(const Recode&, const Recode&) = default;
};

/// The length of the longest possible axis.
inline constexpr std::int64_t kMaxStride = std::int64_t{1} << 31;

/// An interval, both ends included.
struct Bounds {
  double low = 0;
  double high = 0;

  friend bool operator==(const Bounds&, const Bounds&) = default;
};

/// The samples of this level; 0 is full resolution.
struct AtLevel {
  int level = 0;

  friend bool operator==(const AtLevel&, const AtLevel&) = default;
};

/// The samples of the coarsest level that shows every valid sample of the box within an error.
struct WithinError {
  double error = 0;  ///< [unit of the field]

  friend bool operator==(const WithinError&, const WithinError&) = default;
};

/// The samples of the finest level at which the whole answer has at most this many bytes of payload and at
/// most this many of samples.
struct WithinBytes {
  std::uint64_t bytes = 0;

  friend bool operator==(const WithinBytes&, const WithinBytes&) = default;
};

/// The samples whose level-0 position is a multiple of these along x, y, z. They are read from the coarsest
/// level that holds them, see LevelForStride.
struct AtStride {
  Index3 stride{1, 1, 1};  ///< at least 1 each

  friend bool operator==(const AtStride&, const AtStride&) = default;
};

/// Which samples of the box an answer shows.
using Target = std::variant<AtLevel, WithinError, WithinBytes, AtStride>;

/// End of a box along an axis: that of the grid, for questions to grids whose size the caller does not know.
inline constexpr std::int64_t kGridEnd = 0xffffffff;

/// First level of an answer: the coarsest of the field, for the same callers.
inline constexpr int kCoarsestLevel = std::numeric_limits<int>::max();

/// A question as it is asked, by names.
struct ReadRequest {
  std::string field;                  ///< empty: the only one of the dataset
  std::optional<std::uint64_t> step;  ///< left out: the first step that has the field
  /// level-0 samples, half-open, x, y, z; an end may be kGridEnd; left out: the whole grid
  std::optional<Box> box;
  Target target;  ///< left out: level 0
  /// layer of accuracy, 0 the roughest; left out: the last, and the one that costs least for WithinError and
  /// WithinBytes
  std::optional<int> layer;
  /// >= the level of the target: coarser levels from here on come first; kCoarsestLevel: all of them; left
  /// out: that level alone. If WithinError leads to a coarser level than this, that level comes alone
  std::optional<int> first_level;
  /// <= layer: rougher layers from here on come first: all levels in this one, then the finest in each layer
  /// after it; left out: `layer` alone. If WithinError or WithinBytes leads to a rougher layer, that comes
  /// alone
  std::optional<int> first_layer;
  /// [level-0 samples] a point, possibly outside the grid: inside each level, the patches nearest to it come
  /// first
  std::optional<std::array<double, 3>> focus;
  /// [unit of the field] patches without a value between these, ends included, are neither read nor sent. No
  /// sample between them is left out, of the original field or of level 0
  std::optional<Bounds> values;
  /// a patch with damaged payload shows the layer before, or its finest undamaged coarser level, and says so;
  /// otherwise damage is an error
  bool allow_damage = false;
};

/// Most answers to one request.
inline constexpr std::size_t kMaxAnswers = 1000;

/// Steps by number, half-open, like a slice.
struct StepRange {
  std::uint64_t begin = 0;
  std::optional<std::uint64_t> end;  ///< left out: all from `begin` on
  std::uint64_t stride = 1;          ///< distance between numbers, from `begin` on

  bool Contains(std::uint64_t step) const {
    return step >= begin && (!end || step < *end) && (step - begin) % stride == 0;
  }
};

/// The same question of several fields and steps: step by step, and field by field in each step. Each has its
/// own answer.
struct SeriesRequest {
  ReadRequest read;                 ///< one field of one step if the following are left out
  std::vector<std::string> fields;  ///< none: `read.field`
  std::optional<StepRange> steps;   ///< range; steps without the field are skipped; left out: `read.step`

  bool single() const { return fields.empty() && !steps; }
};

/// A level of the answer, in one layer of accuracy.
struct LevelExtent {
  int level = 0;
  int layer = 0;
  Box extent;  ///< level samples whose level-0 position lies in the box; may be empty
  /// level-0 samples between neighbours of the answer: sample i of `extent` lies at i times this. 2^level, or
  /// the requested stride
  Index3 spacing{1, 1, 1};
  double max_error =
      0;  ///< [unit of the field] largest recorded error of the touched patches, see LevelError
  std::uint64_t bytes = 0;  ///< payload that this adds to what comes before it, with masks
  double coverage = 1;      ///< share of the valid level-0 samples of the touched patches that it can show
};

/// Cost of an answer.
struct Cost {
  std::uint64_t patches = 0;
  std::uint64_t bytes = 0;  ///< payload needed
  /// payload read, gaps between joined ranges included, when nothing is in memory and whole batches fit into
  /// it. Patches in memory make it less, scarce memory makes it more
  std::uint64_t bytes_read = 0;
  std::uint64_t reads = 0;        ///< number of reads, as for bytes_read
  std::uint64_t reply_bytes = 0;  ///< samples delivered, all levels
  std::uint64_t coded_bytes = 0;  ///< estimate of the same as coded samples; 0: from an older server

  /// Adds the cost of another answer.
  Cost& operator+=(const Cost& other);
  friend bool operator==(const Cost&, const Cost&) = default;
};

/// Content of a server's answer. Messages have the same numbers.
enum class AnswerEncoding {
  kSamples,  ///< decoded by the server
  kPatches,  ///< as stored
  kCoded,    ///< coded by the server for the answer
};

/// The way from a client to a server, as the client has seen it.
struct Path {
  double round_trip = 0;  ///< [s] the shortest
  double rate = 0;        ///< [bytes/s] 0: not known
  int threads = 1;        ///< threads of the client that decode
};

/// How long an answer takes in an encoding.
struct EncodingPrice {
  AnswerEncoding encoding = AnswerEncoding::kSamples;
  double seconds = 0;  ///< estimate, until all is decoded
  double work = 0;     ///< [s] of it, or beside it, in which the ends compute
};

/// The encoding that a server has chosen for an answer, and why.
struct EncodingChoice {
  AnswerEncoding encoding = AnswerEncoding::kSamples;
  Path path;                          ///< with the rate that was assumed
  std::vector<EncodingPrice> prices;  ///< prices of the encodings that are possible
};

/// Header of an answer, before the first sample.
struct AnswerHeader {
  std::string field;
  DataType type = DataType::kFloat32;
  std::uint64_t step = 0;
  std::vector<LevelExtent> levels;  ///< in the order of delivery: coarsest first, then roughest first
  Cost cost;                        ///< cost of the whole answer
  /// Level-0 samples of the box in patches without the requested values: no level has samples here. No two
  /// overlap
  std::vector<Box> left_out;
  int layer = 0;             ///< layer of accuracy of the last level
  bool may_miss = true;      ///< false: no sample of the patches of the answer is missing
  std::uint64_t number = 0;  ///< number of this answer among the answers to the same request, from 0 on
  std::uint64_t count = 1;   ///< number of these answers
  std::optional<EncodingChoice> choice;  ///< choice of a server, where the client left it open
};

}  // namespace quarry::query
