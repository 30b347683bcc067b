#pragma once

#include "tools/iobench/bench.h"

/// Output of the program: a table for people, an object for scripts.
namespace quarry::iobench {

std::string ToTable(const Load& load, const BenchOptions& options, const BenchResult& result);
std::string ToJson(const Load& load, const BenchOptions& options, const BenchResult& result);

}  // namespace quarry::iobench
