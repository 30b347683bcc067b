#pragma once

#include <nanobind/nanobind.h>

namespace quarry::python {

/// `ZarrHierarchy`: the keys and values of quarry/zarr for the store of zarr-python.
void BindZarr(nanobind::module_& m);

}  // namespace quarry::python
