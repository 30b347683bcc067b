#pragma once

#include <memory>

#include "quarry/pack/packed_steps.h"

namespace quarry {

/// An open pack, from those that were used last in this process; opened again where there is another file at
/// its path. Thread-safe.
/// @param stamp  gets that of the pack; may be null
/// @errors those of PackFile::Open
Result<std::shared_ptr<const PackFile>> ObtainPack(const Location& path, const PackRef& ref, Stamp* stamp);

}  // namespace quarry
