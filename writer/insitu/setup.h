#pragma once

#include "quarry/base/endian.h"
#include "quarry/insitu_setup.h"
#include "quarry/result.h"

namespace quarry::insitu {

/// As bytes, for comparing and sending. DecodeSetup(EncodeSetup(s)) is s, but for pipeline.progress.
Bytes EncodeSetup(const Setup& setup);
/// @errors kDataLoss: not made by EncodeSetup
Result<Setup> DecodeSetup(ByteSpan bytes);

}  // namespace quarry::insitu
