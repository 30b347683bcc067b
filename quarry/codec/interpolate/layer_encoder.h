#pragma once

#include <span>
#include <vector>

#include "quarry/base/memory.h"
#include "quarry/codec/coder.h"
#include "quarry/codec/interpolate/patch_form.h"

/// One layer of accuracy of a patch as bytes, level by level.
namespace quarry::interpolate {

/// A layer as it was coded, for the next one.
struct CodedLayer {
  std::vector<Bytes> levels;   ///< payload per level, 0 the finest
  std::vector<Bytes> decoded;  ///< see CodedPatch
  PatchHead head;
  ExactLevels exact_levels = 0;
};

/// Settings of a layer.
struct LayerSettings {
  double tolerance = 0;
  bool is_last = true;
  bool without_lattice = false;        ///< multiples of a unit lose the sign of zero
  const CodedLayer* before = nullptr;  ///< null: this is the first one
  ByteSpan reference;                  ///< level 0 at another step; empty: there is none
  Validity reference_validity;
};

/// @tparam S  any narrow type of samples
template <typename S>
CodedLayer EncodeLayer(const PatchLayout& layout, std::span<const S> samples, Validity validity,
                       const LayerSettings& settings);

}  // namespace quarry::interpolate
