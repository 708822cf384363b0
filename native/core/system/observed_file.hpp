// Threads: functions of the file system; call them from any thread.
//
// Program files of processes that are observed. Their owner may be another user than the observer, and lays
// at their names, or does to them, whatever they like: a pipe that never opens, a device that acts when it is
// opened, a file that becomes shorter under a reader's map.
#pragma once

#include <string>

namespace latlab::system {

// A regular file for reading, links followed; -1 where it is none, or can't be read. Nothing else is opened.
int open_observed(const std::string& path);

// Whether a file is ours or root's: nobody else cuts it short, or says where its descriptions lie.
bool is_trusted(int file);

// The same for what /proc tells of a process: its owner chooses what it sees as its root.
bool is_trusted(const std::string& path);

// A copy in memory of a file that isn't trusted, without what leads to other files (a description's name) or
// takes far more memory than the file; -1 where it is too large, or there is no memory. To be closed.
int observed_copy(int file);

}  // namespace latlab::system
