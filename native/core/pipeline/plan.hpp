// Threads: plain data, made once.
//
// The plan of a pipeline as the program reads it: one record a line, `kind key=value …`, values
// percent-encoded. latlab.lab writes it from a layout file, which it has checked; what stands here is wired
// as it stands.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace latlab::pipeline {

// A plan that can't be read or wired; the text names the line or the part.
struct PlanError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One line of the plan.
struct Record {
  std::string kind;
  std::map<std::string, std::string, std::less<>> values;
  int line = 0;

  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] std::uint64_t number(std::string_view key) const;
  [[nodiscard]] std::uint64_t number(std::string_view key, std::uint64_t otherwise) const;
  [[nodiscard]] double real(std::string_view key, double otherwise) const;
};

struct Plan {
  Record run;
  std::vector<Record> feeds;  // the exchange's lines, one a venue
  std::vector<Record> threads;
  std::vector<Record> instances;  // of stages, in the order of the flow
  std::vector<Record> queues;
};

// Throws PlanError.
Plan read_plan(const std::string& path);

}  // namespace latlab::pipeline
