"""Compaction: of each key only the newest record stays.

dirty_range      which part of a log may be compacted, and whether it is worth it      (decides)
stream_cleaning  which part of the log of a stream of Redis may be cleaned             (decides)
segment_reader   the batches of closed segments, a buffer at a time                    (BLOCKING)
segment_swap     puts a compacted segment in the place of others, whatever crashes     (BLOCKING)
log_compaction   one pass over one log
log_cleaner      picks the logs, one after the other                                   (event loop)
"""
