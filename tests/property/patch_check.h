#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"
#include "tests/testing/generated_patch.h"

namespace quarry::testing {

/// One patch and how to code it.
struct PatchCase {
  const PatchCoder* coder = nullptr;
  PatchLayout layout;
  const GeneratedPatch* patch = nullptr;
  std::vector<double> tolerances;  ///< tolerance of each layer
};

/// Whether a valid sample has what a coder with safeguards promises beside the largest error.
template <typename T>
bool IsKept(CoderId coder, T original, T decoded) {
  if (coder == CoderId::kInterpolateZeros) return original != 0 || decoded == 0;
  if (coder != CoderId::kInterpolateSigns && coder != CoderId::kInterpolateRelative) return true;
  return (original > 0) == (decoded > 0) && (original < 0) == (decoded < 0);
}

/// Checks every promise of a coder on one patch, by its own definitions. Reuses its buffers from patch to
/// patch; one caller at a time.
class PatchChecker {
 public:
  /// @param garbage  seed of the values in the places of missing samples in an additional call of the coder
  /// @returns the broken promise, or nothing
  std::optional<std::string> Check(const PatchCase& patch, std::uint64_t garbage);

 private:
  template <typename T>
  std::optional<std::string> CheckTyped(const PatchCase& patch, std::uint64_t garbage);
  template <typename T>
  std::optional<std::string> CheckRecord(const PatchCase& patch, const EncodedPatch& encoded) const;
  template <typename T>
  std::optional<std::string> CheckCoder(const PatchCase& patch, const EncodedPatch& encoded);
  template <typename T>
  std::optional<std::string> CheckReader(const PatchCase& patch, const EncodedPatch& encoded, int layer,
                                         double* max_error);
  std::optional<std::string> CheckAddedLayer(const PatchCase& patch, const EncodedPatch& encoded,
                                             PatchReader* reader);
  template <typename T>
  std::optional<std::string> CheckLevel(const PatchCase& patch, int layer, int level, ByteSpan decoded,
                                        bool with_missing, double* max_error) const;
  template <typename T>
  std::optional<std::string> CheckGarbage(const PatchCase& patch, std::uint64_t garbage);
  template <typename T>
  std::optional<std::string> CheckAnyBits(const PatchCase& patch);

  std::vector<std::uint8_t> validity_;        // validity of level 0
  std::vector<std::uint8_t> level_validity_;  // validity of the current level
  std::size_t valid_ = 0;
  Bytes array_;       // samples of a level that were decoded into it
  Bytes replaced_;    // samples with other values in the places of missing ones
  CodedPatch coded_;  // output of the coder itself
};

}  // namespace quarry::testing
