#pragma once

#include "tools/iobench/bench.h"
#include "tools/iobench/exchange_study.h"
#include "tools/iobench/placement_study.h"

/// What the program prints: a table for people, an object for scripts.
namespace quarry::iobench {

std::string ToTable(const Load& load, const BenchOptions& options, const BenchResult& result);
std::string ToJson(const Load& load, const BenchOptions& options, const BenchResult& result);

std::string ToTable(const ExchangeOptions& options, const std::vector<ExchangeResult>& results);
std::string ToJson(const ExchangeOptions& options, const std::vector<ExchangeResult>& results);

std::string ToTable(const PlacementOptions& options, const std::vector<PlacementResult>& results);
std::string ToJson(const PlacementOptions& options, const std::vector<PlacementResult>& results);

}  // namespace quarry::iobench
