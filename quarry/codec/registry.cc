#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/codec/interpolate/interpolate.h"
#include "quarry/codec/lossless/lossless.h"
#include "quarry/codec/mask/validity_coder.h"
#include "quarry/codec/safeguards/safeguarded_coder.h"
#include "quarry/codec/wavelet_zfp/wavelet_zfp.h"

namespace quarry {
namespace {

std::span<const PatchCoder* const> AllCoders() {
  static const WaveletZfpCoder wavelet_zfp;
  static const InterpolateCoder interpolate;
  static const LosslessCoder lossless;
  static const ValidityCoder validity;
  static const SafeguardedCoder zeros(Safeguard::kZeros);
  static const SafeguardedCoder signs(Safeguard::kSigns);
  static const SafeguardedCoder relative(Safeguard::kRelative);
  static const std::array<const PatchCoder*, 7> coders = {&wavelet_zfp, &interpolate, &lossless, &validity,
                                                          &zeros,       &signs,       &relative};
  return coders;
}

}  // namespace

const PatchCoder* FindCoder(CoderId id) {
  for (const PatchCoder* coder : AllCoders()) {
    if (coder->id() == id) return coder;
  }
  return nullptr;
}

std::span<const PatchCoder* const> FieldCoders() {
  static const auto& coders = *new const auto([] {
    std::vector<const PatchCoder*> of_fields;
    std::ranges::copy_if(AllCoders(), std::back_inserter(of_fields),
                         [](const PatchCoder* coder) { return coder->traits().codes_fields; });
    return of_fields;
  }());
  return coders;
}

std::string_view Name(CoderId id) {
  const PatchCoder* coder = FindCoder(id);
  return coder != nullptr ? coder->name() : "unknown";
}

Result<CoderId> ParseCoder(std::string_view name) {
  std::string known;
  for (const PatchCoder* coder : FieldCoders()) {
    if (coder->name() == name) return coder->id();
    known += fmt::format("{}{}", known.empty() ? "" : ", ", coder->name());
  }
  return InvalidArgument("unknown codec \"{}\"; this version knows {}", name, known);
}

}  // namespace quarry
