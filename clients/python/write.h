#pragma once

#include <nanobind/nanobind.h>

namespace quarry::python {

/// `quarry.write`: arrays to datasets, in this process and without MPI.
void BindWriting(nanobind::module_& m);

}  // namespace quarry::python
