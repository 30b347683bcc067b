#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "quarry/insitu.h"
#include "quarry/quarry_insitu.h"

/// The object behind a quarry_insitu of the C interface: datasets of any kind.
namespace quarry::insitu::internal {

/// Opens the dataset once all is declared; `declared` is an error of this rank in doing so. Collective.
using Opener = std::function<Result<std::unique_ptr<AnyDataset>>(
    const Setup& setup, const std::vector<OwnedBox>& boxes, const Status& declared)>;

/// A quarry_insitu whose start calls `open`; otherwise as quarry_insitu_open.
int MakeObject(Opener open, const char* path, int mode, quarry_insitu** out);

}  // namespace quarry::insitu::internal
