// A container that finds its entries by searching from the front: the component under study.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

class Connection {
 public:
  Connection() = default;
  explicit Connection(int id) : id_(id), peer_("10.0.0." + std::to_string(id % 256)), port_(4000 + id) {}
  [[nodiscard]] int id() const { return id_; }
  [[nodiscard]] int port() const { return port_; }

 private:
  int id_ = 0;
  std::string peer_;
  int port_ = 0;
};

class Connections {
 public:
  explicit Connections(int entries) {
    for (int id = 0; id < entries; ++id) entries_.emplace_back(id);
  }
  // Null where there is none of this id.
  [[nodiscard]] const Connection* get(int id) const {
    for (const Connection& one : entries_) {
      if (one.id() == id) return &one;
    }
    return nullptr;
  }

 private:
  std::vector<Connection> entries_;
};
