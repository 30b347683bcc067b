#include <array>

#include "quarry/codec/coder.h"
#include "quarry/codec/interpolate/interpolate.h"
#include "quarry/codec/lossless/lossless.h"
#include "quarry/codec/validity_coder.h"
#include "quarry/codec/wavelet_zfp.h"

namespace quarry {
namespace {

struct CoderRow {
  CoderId id;
  std::string_view name;
  const PatchCoder* coder;
};

const auto& Coders() {
  static const WaveletZfpCoder wavelet_zfp;
  static const InterpolateCoder interpolate;
  static const LosslessCoder lossless;
  static const std::array rows = {CoderRow{CoderId::kWaveletZfp, "wavelet-zfp", &wavelet_zfp},
                                  CoderRow{CoderId::kInterpolate, "interpolate", &interpolate},
                                  CoderRow{CoderId::kLossless, "lossless", &lossless}};
  return rows;
}

}  // namespace

const PatchCoder* FindCoder(CoderId id) {
  // Codes masks, beside the coder of a field: it has no row, because no field may name it.
  static const ValidityCoder validity;
  if (id == CoderId::kValidity) return &validity;
  for (const CoderRow& row : Coders()) {
    if (row.id == id) return row.coder;
  }
  return nullptr;
}

std::string_view Name(CoderId id) {
  if (id == CoderId::kValidity) return "validity";
  for (const CoderRow& row : Coders()) {
    if (row.id == id) return row.name;
  }
  return "unknown";
}

Result<CoderId> ParseCoder(std::string_view name) {
  for (const CoderRow& row : Coders()) {
    if (row.name == name) return row.id;
  }
  std::string known;
  for (const CoderRow& row : Coders()) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  return InvalidArgument("unknown coder \"{}\"; this version knows {}", name, known);
}

}  // namespace quarry
