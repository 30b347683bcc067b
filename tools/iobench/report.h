#pragma once

#include "tools/iobench/bench.h"
#include "tools/iobench/exchange_study.h"

/// What the program prints: a table for people, an object for scripts.
namespace quarry::iobench {

std::string ToTable(const Load& load, const BenchOptions& options, const BenchResult& result);
std::string ToJson(const Load& load, const BenchOptions& options, const BenchResult& result);

std::string ToTable(const ExchangeOptions& options, const std::vector<ExchangeResult>& results);
std::string ToJson(const ExchangeOptions& options, const std::vector<ExchangeResult>& results);

}  // namespace quarry::iobench
