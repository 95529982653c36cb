// What the emulated driver and a compiled kernel know of each other. The text of every kernel begins with this file, so
// it includes nothing.
#pragma once

namespace emulator {

struct Index {
  unsigned x, y, z;
};

/// What a lane brings to a meeting of its warp.
struct Lane {
  alignas(16) unsigned char given[64];
  bool there;
};

/// Run once by the lane that comes last, when all have given theirs.
using Combine = void (*)(Lane (&lanes)[32]);

/// The block that runs on a host thread. Its threads are fibers that take turns: one runs until it waits for others.
struct Block {
  Index thread, threads;  ///< of the thread that runs now; of each block
  Index block, blocks;
  unsigned lane;                  ///< of the thread that runs now
  unsigned long long serial;      ///< another one for each block that this host thread runs
  unsigned char* shared;          ///< dynamic shared memory
  unsigned char* const* cluster;  ///< that of each block of the cluster, valid after the first synchronize_cluster()
  unsigned cluster_blocks;
  bool has_waited;  ///< for the launches before

  /// Waits for all threads of the block; gives how many of them voted other than 0.
  unsigned (*synchronize)(unsigned vote);
  /// Waits for all threads of all blocks of the cluster.
  void (*synchronize_cluster)();
  /// Waits for the lanes in `mask`, and gives what each of them brought, valid until the thread's next call.
  Lane* (*exchange)(const char* what, unsigned mask, const void* given, unsigned bytes, Combine combine);
  /// Lets other threads run, of this block and of others.
  void (*yield)();
  /// Waits until the phase of a barrier ends, or another block may have ended it.
  void (*await_phase)(const void* barrier);
  /// Those of this block that wait for it go on.
  void (*phase_ended)(const void* barrier);
  /// Ends the launch with a message. Does not return.
  void (*fail)(const char* what);
};

struct Parameter {
  unsigned bytes, alignment;
  bool is_pointer;
};

/// What a module exports for a kernel, as camshaft_kernel_NAME.
struct Kernel {
  const Parameter* parameters;
  unsigned parameter_count;
  unsigned most_threads;  ///< of a block, as __launch_bounds__ says
  void (*run)(void** arguments);
};

/// What a module exports as camshaft_enter: the block that the calling host thread works on from now on.
using Enter = void (*)(Block*);

}  // namespace emulator
