#pragma once

#include "quarry/base/endian.h"
#include "quarry/base/result.h"
#include "writer/insitu/insitu_setup.h"

namespace quarry::insitu {

/// As bytes, for comparing and sending. DecodeSetup(EncodeSetup(s)) is s, but for pipeline.progress.
Bytes EncodeSetup(const Setup& setup);
/// @errors kDataLoss: not made by EncodeSetup
Result<Setup> DecodeSetup(ByteSpan bytes);

}  // namespace quarry::insitu
