#pragma once

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/base/checksum.h"
#include "quarry/codec/coder.h"
#include "quarry/description.h"
#include "quarry/query/distance_order.h"
#include "quarry/query/patch_locator.h"
#include "quarry/question.h"

/// A question and the patches that answer it, before any payload is read.
namespace quarry::query {

/// Patches of a run, where nobody asks for another number: some megabytes of rows.
inline constexpr std::size_t kRunPatches = 8192;

/// Patches that alone take part in an answer.
struct PatchList {
  std::uint64_t most = 0;            ///< patches at most: known before they are
  std::vector<std::uint64_t> codes;  ///< along the curve, ascending
};

/// One question, already resolved against a dataset.
struct Query {
  std::uint64_t step = 0;
  std::size_t field_number = 0;
  std::uint64_t mask = 0;  ///< name of the mask of this field and step; 0: no sample is missing
  Box box;                 ///< level-0 samples, inside the grid
  Target target;           ///< samples wanted
  int level = 0;           ///< level of the target; 0 until the plan has chosen it
  int layer = 0;           ///< layer of accuracy wanted, of all levels
  int first_level = 0;     ///< >= level; coarser levels from here on are delivered too, one after the other
  int first_layer = 0;     ///< <= layer; all levels are delivered in it, then `level` in those after it
  bool any_layer =
      false;  ///< the plan chooses the layer as well, for WithinError and WithinBytes: up to `layer`
  std::optional<std::array<double, 3>> focus;     ///< [level-0 samples] the nearest patches come first
  std::optional<Bounds> values;                   ///< patches that hold none of them are left out
  bool allow_damage = false;                      ///< otherwise damage is an error
  std::shared_ptr<const PatchList> only_patches;  ///< the others are left out; null: none is
  std::size_t run_patches = 0;                    ///< patches of a plan that are in memory at a time; 0: all
  std::size_t most_left_out = std::numeric_limits<std::size_t>::max();  ///< boxes, of a plan in runs
};

/// How far an answer was delivered.
struct Position {
  std::size_t pass = 0;   ///< levels, and layers of the last one, that were delivered
  std::size_t patch = 0;  ///< patches of the plan that were delivered of the next
  std::size_t start = 0;  ///< the patch of the plan with which each level begins; those before it come last
  std::size_t end_pass = std::numeric_limits<std::size_t>::max();  ///< no pass from here on is wanted
};

/// The same patch at another step.
struct ReferredPatch {
  std::size_t step = 0;  ///< position in ReadPlan::references
  LocatedPatch entry;
  std::shared_ptr<const LocatedPatch> mask;  ///< as in PlannedPatch
};

struct PlannedPatch {
  LocatedPatch entry;
  std::shared_ptr<const LocatedPatch> mask;  ///< if samples of the patch are missing; most have none
  Box samples;                               ///< box of the patch, level 0
  /// Patches that decoding needs, in the order of the plan's references. Most need none.
  std::vector<ReferredPatch> references;
};

/// A step to which another may refer.
struct ReferenceStep {
  std::uint64_t step = 0;
  std::uint64_t mask = 0;  ///< as in Query
};

/// Looks up the steps to which patches of a step may refer, at most two; of one field.
using FindReferences = std::function<Result<std::vector<ReferenceStep>>(std::uint64_t step)>;

/// The steps that decoding needs beside that of the plan.
struct References {
  std::vector<ReferenceStep> steps;  ///< in the order in which they are decoded
  /// For each of `steps`, and last for the step of the plan: positions of the steps to which it refers.
  std::vector<std::vector<std::size_t>> refers_to;
};

/// Ranges of values in a box by the patch tables; +infinity to -infinity without valid samples.
struct RecordedRange {
  Bounds all{std::numeric_limits<double>::infinity(),
             -std::numeric_limits<double>::infinity()};  ///< patches that meet the box
  Bounds inside = all;                                   ///< patches that lie in it
};

/// Sums over the patches of a plan. Those of two runs add up.
struct PlanTotals {
  /// At a level that the plan delivers, in its layer.
  struct OfLevel {
    double max_error = 0;
    double valid = 0;    ///< level-0 samples
    double covered = 0;  ///< valid samples that the level can show
    double samples = 0;  ///< decoded, those of other steps included
    std::uint64_t bytes = 0;
  };

  std::size_t patches = 0;
  bool masked = false;                ///< some have a mask
  std::vector<OfLevel> levels;        ///< in the order of the plan's levels
  std::vector<double> layer_errors;   ///< [layer] largest recorded error at level 0
  std::vector<std::uint64_t> alone;   ///< [level] payload of an answer at this level alone
  std::uint64_t largest_payload = 0;  ///< [bytes] that a patch adds to a level of the answer
  std::uint64_t largest_decoded = 0;  ///< [bytes] decoded samples of a patch
  std::uint64_t reads = 0;
  std::uint64_t bytes_read = 0;

  PlanTotals& operator+=(const PlanTotals& other);
};

/// Patches of a plan that are found and planned together.
struct PatchRun {
  Shell shell;            ///< a piece of the curve; with a focus, distances from it
  std::size_t first = 0;  ///< number in the plan
  std::size_t count = 0;
};

struct ReadPlan {
  Query query;  ///< with the level that was chosen
  std::string field;
  DataType type = DataType::kFloat32;
  CoderId coder = CoderId::kWaveletZfp;
  double relative_error = 0;  ///< promise of a sample of level 0, see PointwiseBound; 0: none
  int dataset_levels = 1;
  PatchParts parts;                   ///< parts of the field
  std::uint64_t read_gap = 0;         ///< [bytes] gaps up to this are read rather than skipped
  std::vector<LevelExtent> levels;    ///< to deliver, coarsest first, then roughest first
  std::vector<PlannedPatch> patches;  ///< in Morton order or by distance from the focus, see BeginWith; only
                                      ///< those that hold a sample of the answer at the finest level
  std::vector<PatchRun> runs;         ///< otherwise `patches` has none, and PlanRun finds those of each run
  std::uint64_t run_memory = 0;       ///< [bytes] to plan and execute a run
  PlanTotals totals;                  ///< over all patches
  References references;              ///< references of all patches together
  std::vector<Box> left_out;          ///< level-0 samples of the box in patches without the requested values
  Cost cost;
  RecordedRange recorded;         ///< range of the valid original samples
  std::uint64_t fingerprint = 0;  ///< fingerprint of a plan in runs, see Fingerprint
};

/// Shows a plan to a function, or each of its runs in their order, planned again: whatever has patches.
using ForEachPart = std::function<void(const std::function<void(const ReadPlan& part)>& look)>;

/// A plan with all patches in memory is its only part. @param plan  outlives the function
ForEachPart OnlyPart(const ReadPlan& plan);

/// The header that comes before the samples.
AnswerHeader HeaderOf(const ReadPlan& plan);

/// Has an answer begin with this patch, and those before it come last.
void BeginWith(std::size_t start, ReadPlan* plan);

/// Adds patches to the fingerprint of a plan.
class FingerprintSum {
 public:
  /// @param plan  with its levels, of which only the extents count, and the samples that are left out
  explicit FingerprintSum(const ReadPlan& plan);
  void Add(std::span<const PlannedPatch> patches);
  std::uint64_t Finish() const { return checksum_.Finish(); }

 private:
  StreamingChecksum checksum_;
};

/// Equal for plans whose answers are equal, byte for byte and in the same order: a digest of the parts of the
/// question that shape the answer, and of the stored checksums of all payload.
std::uint64_t Fingerprint(const ReadPlan& plan);

}  // namespace quarry::query
