#pragma once

#include "benchmarks/reproduction/model/exchange_study.h"
#include "benchmarks/reproduction/model/placement_study.h"

/// The output of the studies: a table for people, an object for scripts.
namespace quarry::reproduction {

std::string ToTable(const ExchangeOptions& options, const std::vector<ExchangeResult>& results);
std::string ToJson(const ExchangeOptions& options, const std::vector<ExchangeResult>& results);

std::string ToTable(const PlacementOptions& options, const std::vector<PlacementResult>& results);
std::string ToJson(const PlacementOptions& options, const std::vector<PlacementResult>& results);

}  // namespace quarry::reproduction
