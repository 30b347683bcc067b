#pragma once

#include <optional>
#include <string>

#include "quarry/dataset/dataset.h"

namespace quarry::tools {

/// Which subfiles to list.
struct ListRequest {
  std::optional<std::uint64_t> step;  ///< left out: all
  std::string field;                  ///< empty: all
  std::string box;                    ///< as ParseBox takes it; empty: everything
  bool json = false;
};

/// Prints the subfiles whose boxes meet a box, out of the index.
/// @errors kNotFound: no index, no such step or field; kInvalidArgument: the box; kDataLoss: damaged
Status ListSubfiles(const std::shared_ptr<const Dataset>& dataset, const Location& index,
                    const ListRequest& request);

}  // namespace quarry::tools
