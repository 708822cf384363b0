#include "pipeline/plan.hpp"

#include <charconv>
#include <fstream>
#include <sstream>

namespace latlab::pipeline {

namespace {

std::string decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ec == std::errc{}) {
      result += static_cast<char>(value);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

std::string Record::text(std::string_view key) const {
  const auto found = values.find(key);
  if (found == values.end()) {
    throw PlanError("line " + std::to_string(line) + ": " + kind + " has no " + std::string(key));
  }
  return found->second;
}

std::string Record::text(std::string_view key, std::string_view otherwise) const {
  const auto found = values.find(key);
  return found == values.end() ? std::string(otherwise) : found->second;
}

std::uint64_t Record::number(std::string_view key) const {
  const std::string value = text(key);
  std::uint64_t result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc{} || end != value.data() + value.size()) {
    throw PlanError("line " + std::to_string(line) + ": " + std::string(key) + "=" + value +
                    " is not a whole number");
  }
  return result;
}

std::uint64_t Record::number(std::string_view key, std::uint64_t otherwise) const {
  return values.find(key) == values.end() ? otherwise : number(key);
}

double Record::real(std::string_view key, double otherwise) const {
  const auto found = values.find(key);
  if (found == values.end()) return otherwise;
  std::istringstream in(found->second);
  double result = 0;
  if (!(in >> result) || !in.eof()) {
    throw PlanError("line " + std::to_string(line) + ": " + std::string(key) + "=" + found->second +
                    " is not a number");
  }
  return result;
}

Plan read_plan(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw PlanError("can't be opened");
  Plan plan;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line);
    Record record;
    record.line = number;
    if (!(words >> record.kind)) continue;
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) {
        throw PlanError("line " + std::to_string(number) + ": '" + word + "' is not a key=value");
      }
      record.values[word.substr(0, equals)] = decoded(std::string_view(word).substr(equals + 1));
    }
    if (record.kind == "run") {
      plan.run = record;
    } else if (record.kind == "feed") {
      plan.feeds.push_back(record);
    } else if (record.kind == "thread") {
      plan.threads.push_back(record);
    } else if (record.kind == "instance") {
      plan.instances.push_back(record);
    } else if (record.kind == "queue") {
      plan.queues.push_back(record);
    } else {
      throw PlanError("line " + std::to_string(number) + ": unknown record '" + record.kind + "'");
    }
  }
  if (plan.run.kind.empty()) throw PlanError("there is no run record");
  return plan;
}

}  // namespace latlab::pipeline
