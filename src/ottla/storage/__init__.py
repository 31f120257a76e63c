"""The log on disk: directories, segments, indexes, producer state, and what survives a crash.

LogManager          the logs of all data directories, and their periodic work
  LogDirectory      the directory itself: lock, identity, checkpoints, the log I/O thread, its failure
  Log               a partition: append, read, look up, truncate, retain
    LogSegment      a .log file with its offset and time index
    ProducerStateManager, LeaderEpochCache
"""
